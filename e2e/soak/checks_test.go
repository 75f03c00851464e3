package soak

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestLine checks that a good line forwards all data. It also checks that stalled data is forwarded
// after resume, and that a bad line ends a connection.
func TestLine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					fmt.Fprintln(conn, in.Text())
				}
			}()
		}
	}()
	const short = 10 * time.Millisecond
	l := newLine(1, short)
	defer l.close()
	r, err := l.relay("r", "127.0.0.1:1", echo.Addr().String()) // the first target does not exist
	check.NoError(t, err)
	conn, err := net.Dial("tcp", r.address())
	check.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewScanner(conn)
	say := func(text string) bool {
		_, _ = fmt.Fprintln(conn, text)
		return answers.Scan() && answers.Text() == text
	}
	if !say("good") {
		t.Fatal("a good line breaks")
	}
	r.mu.Lock()
	for k := range r.links {
		k.stall()
		_, _ = fmt.Fprintln(conn, "stalled")
		k.resume()
	}
	r.mu.Unlock()
	if !answers.Scan() || answers.Text() != "stalled" || !say("on") {
		t.Error("what was stalled does not go on")
	}
	l.set(true)
	for say("bad") {
	}
}

// TestSightings checks that a version counts once, that it does not count after a newer one, and
// that versions do not count after stop.
func TestSightings(t *testing.T) {
	var s sightings
	s.count()
	for _, rv := range []uint64{3, 3, 5, 4} {
		s.add("k", version{"uid", rv, "w"})
	}
	s.add("other", version{"uid", 1, "w"})
	check.Equal(t, s.stop(), 3, "versions")
	s.add("k", version{"uid", 9, "w"})
	if s.count(); s.stop() != 0 {
		t.Error("what is not counted counts")
	}
}

func v(rv uint64) version { return version{"uid", rv, "w"} }

// histories are sequences of handler calls, by name. tell makes the calls.
var histories = map[string]struct {
	tell func(h *history)
	want string // text in the reported problem; empty: no problem
}{
	"in order": {func(h *history) {
		h.added("k", v(1))
		h.updated("k", v(1), v(2))
		h.deleted("k", v(3))
		h.added("k", version{"other", 4, "w"})
	}, ""},
	"made again unseen":  {func(h *history) { h.added("k", v(1)); h.updated("k", v(1), version{"other", 5, "w"}) }, ""},
	"other bytes":        {func(h *history) { h.added("k", v(1)); h.updated("k", v(1), version{"uid", 1, "x"}) }, ""},
	"added twice":        {func(h *history) { h.added("k", v(1)); h.added("k", v(2)) }, "though the handler holds 1"},
	"updated, not held":  {func(h *history) { h.updated("k", v(1), v(2)) }, "holds nothing"},
	"deleted, not held":  {func(h *history) { h.deleted("k", v(1)) }, "holds nothing"},
	"replicas, not held": {func(h *history) { h.deleted("k", v(1)) }, ""},
	"from another":       {func(h *history) { h.added("k", v(1)); h.updated("k", v(2), v(3)) }, "Updated from 2"},
	"updated back":       {func(h *history) { h.added("k", v(5)); h.updated("k", v(5), v(4)) }, "went back"},
	"deleted another":    {func(h *history) { h.added("k", v(1)); h.deleted("k", version{"other", 2, "w"}) }, "another object"},
	"deleted back":       {func(h *history) { h.added("k", v(5)); h.deleted("k", v(4)) }, "went back"},
	"risen from the dead": {func(h *history) {
		h.added("k", v(1))
		h.deleted("k", v(2))
		h.added("k", v(1))
	}, "went back"},
	"restored":            {func(h *history) { h.added("k", v(5)); h.wentBack(100); h.updated("k", v(5), v(2)) }, ""},
	"restored without it": {func(h *history) { h.added("k", v(5)); h.wentBack(100); h.deleted("k", v(5)); h.added("k", v(2)) }, ""},
	"restored, then back": {func(h *history) {
		h.added("k", v(5))
		h.wentBack(100)
		h.updated("k", v(5), v(3))
		h.updated("k", v(3), v(2))
	}, "went back"},
	"restored, told late": {func(h *history) {
		h.added("k", v(5))
		h.wentBack(100)
		h.updated("k", v(5), v(6))
		h.updated("k", v(6), v(6)) // a relist from a watch cache from before the restore
		h.updated("k", v(6), v(2))
	}, ""},
	"restored, first told late": {func(h *history) {
		h.wentBack(100)
		h.added("k", v(6))
		h.updated("k", v(6), v(2))
	}, ""},
	"restored, gone, made again late": {func(h *history) {
		h.added("k", v(5))
		h.wentBack(100)
		h.deleted("k", v(7))
		h.added("k", version{"other", 8, "9"})
		h.deleted("k", version{"other", 8, "9"})
		h.added("k", v(2))
	}, ""},
	"restored, written since, then back": {func(h *history) {
		h.added("k", v(5))
		h.wentBack(100)
		h.updated("k", v(5), version{"uid", 8, "101"})
		h.updated("k", version{"uid", 8, "101"}, v(6))
	}, "went back"},
}

// TestHistory checks for each sequence of calls whether history reports a problem, and which.
func TestHistory(t *testing.T) {
	for name, tt := range histories {
		h := newHistory(name, time.Now(), &sightings{})
		h.replicas = strings.HasPrefix(name, "replicas")
		tt.tell(h)
		problems, _, _ := h.take()
		if got := strings.Join(problems, "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, not %q", name, got, tt.want)
		}
	}
}

// TestDifference checks that difference reports missing, different and additional objects, and
// returns "" for equal ones.
func TestDifference(t *testing.T) {
	one, other := version{"u", 1, "1"}, version{"u", 1, "2"}
	told := func(string) string { return "" }
	for name, held := range map[string]map[string]version{
		"missing": {}, "other content": {"k": other}, "too many": {"k": one, "l": one},
	} {
		if difference(map[string]version{"k": one}, held, told) == "" {
			t.Errorf("%s is no difference", name)
		}
	}
	check.Equal(t, difference(map[string]version{"k": one}, map[string]version{"k": one}, told), "", "the same differs")
}

// TestTap checks that the reader of a tapped body receives the unchanged body, and that the tap
// records the versions of a key and the bookmarks.
func TestTap(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const event = `{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"x","uid":"uid-1","resourceVersion":"%d"}}}` + "\n"
	const bookmark = `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}` + "\n"
	want := fmt.Sprintf(event, "ADDED", 5) + bookmark + fmt.Sprintf(event, "DELETED", 7)
	tp := newTap(time.Now())
	body := tp.listen(3, &http.Response{Body: io.NopCloser(strings.NewReader(want)), Header: http.Header{}}, true)
	if got, err := io.ReadAll(body); string(got) != want || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	_ = body.Close()
	told := tp.told("a/x")
	for _, line := range []string{"#3 ADDED 5 (uid uid-), after 0", "#3 DELETED 7 (uid uid-), after 9", "#3 BOOKMARK 9"} {
		if !strings.Contains(told, line) {
			t.Errorf("%q is not told in\n%s", line, told)
		}
	}
}

// ownEvery is the time between two reads of an API server's watch cache.
const ownEvery = 100 * time.Millisecond

// startOwn measures when the API servers' own watch caches reach the wanted state after the last
// fault. An informer cannot be current before the server that it watches. The returned function
// ends the measurement. By resource and for each server, it returns the time from the last fault
// (over) until the server's watch cache had the wanted state. If a watch cache never had that
// state, the time ends with the measurement.
func (w *world) startOwn(ctx context.Context, over time.Time, want *state) func() map[string][]time.Duration {
	ctx, cancel := context.WithCancel(ctx)
	took := map[string][]time.Duration{"configmaps": make([]time.Duration, len(w.servers)), "widgets": make([]time.Duration, len(w.servers))}
	var asking sync.WaitGroup
	for of, times := range took {
		for i := range times {
			asking.Go(func() {
				tick := time.NewTicker(ownEvery)
				defer tick.Stop()
				for !maps.Equal(w.cached(ctx, i, of), want.objects[of]) && ctx.Err() == nil {
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
				times[i] = time.Since(over)
			})
		}
	}
	return func() map[string][]time.Duration {
		cancel()
		asking.Wait()
		took[pairs] = took["configmaps"]
		return took
	}
}

// cached returns the objects in an API server's watch cache. It returns nil if the request fails.
func (w *world) cached(ctx context.Context, server int, of string) map[string]version {
	out := map[string]version{}
	options := metav1.ListOptions{ResourceVersion: "0"}
	if of == "widgets" {
		list, err := w.dynamic(w.servers[server].Config()).Resource(widgets).List(ctx, options)
		if err != nil {
			return nil
		}
		for i := range list.Items {
			if o := &list.Items[i]; compared(o.GetNamespace() + "/" + o.GetName()) {
				out[o.GetNamespace()+"/"+o.GetName()] = versionOf(o)
			}
		}
		return out
	}
	list, err := w.admin(server).CoreV1().ConfigMaps(corev1.NamespaceAll).List(ctx, options)
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if o := &list.Items[i]; compared(o.Namespace + "/" + o.Name) {
			out[o.Namespace+"/"+o.Name] = versionOf(o)
		}
	}
	return out
}

// putOff returns the time until which a subject (an informer under test) must wait. A server or a
// proxy requests this by a Retry-After header in a response to the subject, or to a proxy that the
// subject uses.
func (w *world) putOff(s *subject) time.Time {
	until := s.requests.putOffUntil()
	if asked := w.proxiesPutOff(); s.way != ways[0] && asked.After(until) {
		return asked
	}
	return until
}

// putOffByServer returns the time until which an API server made a subject (an informer under test)
// wait. A delay that only a proxy requested does not count.
func (w *world) putOffByServer(s *subject) time.Time {
	until := s.requests.putOffUntil()
	if asked := w.proxiesPutOff(); s.way != ways[0] && asked.Before(until) {
		return asked
	}
	return until
}

// proxiesPutOff returns the latest time until which an API server made a proxy wait.
func (w *world) proxiesPutOff() (until time.Time) {
	for _, asked := range w.asked {
		if at := asked.putOffUntil(); at.After(until) {
			until = at
		}
	}
	return until
}

// serversOf returns, for each API server, whether a subject (an informer under test) is connected
// to it. A subject that uses the proxies counts as connected to the proxies' servers.
func (w *world) serversOf(s *subject) []bool {
	if s.way == ways[0] {
		return w.line.targets(s.way+"/"+s.name+"/"+s.of, len(w.servers))
	}
	out := make([]bool, len(w.servers))
	for i := range w.proxies {
		for server, connected := range w.line.targets(ways[0]+"/"+proxyName(i), len(w.servers)) {
			out[server] = out[server] || connected
		}
	}
	return out
}

// heldUp returns how long a subject's API servers delayed the subject: the longest time that the
// watch cache of one of these servers needed until it had the wanted state (took, see startOwn).
// The subject's servers are the servers to which it was connected after the last fault (before) or
// when it was current (after).
func heldUp(took []time.Duration, before, after []bool) (most time.Duration) {
	for i, t := range took {
		if before[i] || len(after) > i && after[i] {
			most = max(most, t)
		}
	}
	return most
}
