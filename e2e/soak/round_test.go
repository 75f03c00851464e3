package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// lost is the longest time from the last fault until a subject must have the wanted objects. A
	// subject that needs longer counts as lost.
	lost = time.Minute
	// look is the time between two checks whether a subject is current.
	look = 20 * time.Millisecond
	// restoredFor is the duration of writes after a restore. Writes last this long twice: before and
	// after etcd reaches the revision that it had before the restore.
	restoredFor = 8 * time.Second
)

// state is the state of the servers according to a quorum LIST.
type state struct {
	objects map[string]map[string]version // by the kind of objects ("of") of a subject
	whole   map[string]*corev1.ConfigMap
}

// truth LISTs all objects from one API server, without relays or proxies. No client may write
// meanwhile.
func (w *world) truth(ctx context.Context) *state {
	w.t.Helper()
	st := &state{objects: map[string]map[string]version{"configmaps": {}, pairs: {}, "widgets": {}}, whole: map[string]*corev1.ConfigMap{}}
	for _, ns := range namespaces {
		list, err := w.admin(0).CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		w.fatal(err)
		for i := range list.Items {
			o := &list.Items[i]
			key := o.Namespace + "/" + o.Name
			st.objects["configmaps"][key], st.whole[key] = versionOf(o), o
			if paired(o) {
				st.objects[pairs][key] = versionOf(o)
			}
		}
		custom, err := w.dynamic(w.servers[0].Config()).Resource(widgets).Namespace(ns).List(ctx, metav1.ListOptions{})
		w.fatal(err)
		for i := range custom.Items {
			o := &custom.Items[i]
			st.objects["widgets"][o.GetNamespace()+"/"+o.GetName()] = versionOf(o)
		}
	}
	return st
}

// paired reports whether the subjects named pairs must have an object. They watch two namespaces
// with two selectors.
func paired(o *corev1.ConfigMap) bool {
	return slices.Contains(pairNamespaces, o.Namespace) && slices.ContainsFunc(pairSelectors, func(s string) bool {
		selector, err := labels.Parse(s)
		return err == nil && selector.Matches(labels.Set(o.Labels))
	})
}

// round runs one round. It causes faults for the given time while objects are written, and then
// waits until all subjects are current. If backup is set, it makes a backup of etcd before the
// faults.
func (w *world) round(ctx context.Context, number int, length time.Duration, c *churn, f *faults, subjects []*subject, backup bool) {
	w.t.Helper()
	w.note("round %d", number)
	for _, s := range subjects {
		s.seen.count()
	}
	before := c.written.Load()
	c.start(ctx)
	if backup {
		w.fatal(w.cluster.Backup(ctx))
		w.note("etcd is backed up")
	}
	f.run(ctx, length)
	for _, s := range subjects {
		s.result.Versions = append(s.result.Versions, s.seen.stop())
	}
	took, held := w.settle(ctx, fmt.Sprintf("round %d (%d writes)", number, c.written.Load()-before), c, subjects)
	for i, s := range subjects {
		s.result.Current = append(s.result.Current, took[i].Seconds())
		s.result.HeldUp = append(s.result.HeldUp, held[i].Seconds())
	}
}

// slow is a delay. The test logs a subject that became current later than this delay after the
// control, and later than this delay after the subject's own servers.
const slow = time.Second

// controlOf returns the index of the control with the same way and objects as s. It returns -1 if
// there is none, or if s is a control.
func controlOf(s *subject, subjects []*subject) int {
	return slices.IndexFunc(subjects, func(o *subject) bool {
		return o.control && !s.control && o.way == s.way && o.of == s.of && o.result.plain() == s.result.plain()
	})
}

// never is the recorded time of a subject that did not have the wanted objects within lost (a
// minute).
const never = -time.Second

// settle waits after the last fault until the objects and the handlers of every subject equal the
// server's objects. It returns how long each subject took, and how long its servers delayed it (see
// heldUp). It reports problems of the subjects.
func (w *world) settle(ctx context.Context, name string, c *churn, subjects []*subject) (took, held []time.Duration) {
	w.t.Helper()
	over := time.Now()
	held = make([]time.Duration, len(subjects))
	servers := make([][]bool, len(subjects))
	for i, s := range subjects {
		held[i], servers[i] = max(0, w.putOff(s).Sub(over)), w.serversOf(s)
		if s.settle != nil {
			s.settle()
		}
	}
	c.stop()
	want := w.truth(ctx)
	own := w.startOwn(ctx, over, want)
	took = w.wait(ctx, over, want, subjects)
	current := own()
	for i, s := range subjects {
		held[i] = min(max(held[i], w.putOffByServer(s).Sub(over), heldUp(current[s.of], servers[i], s.servers)), took[i])
		if took[i] == never && !s.lost {
			s.lost = true
			w.problem(s, fmt.Sprintf("%v: not current %v after the last fault: %s\n  %s\n  by its handlers\n  %s\n  it asked for\n    %v", s, lost, s.trouble(),
				difference(want.objects[s.of], s.objects(), s.tellings), difference(want.objects[s.of], s.told(), s.tellings), s.requests))
		}
		if j := controlOf(s, subjects); j >= 0 && took[j] != never && took[i] > max(took[j], held[i])+slow {
			w.t.Logf("%s: %v was current %v after the last fault at %.3fs, for %v of which its servers held it up; until then it asked for\n    %v\n  the control was current after %v, and asked for\n    %v",
				name, s, took[i], over.Sub(w.begun).Seconds(), held[i], s.asked, took[j], subjects[j].asked)
		}
		s.check(w, want, took[i] != never)
	}
	w.progress("%s: %s", name, summary(subjects, took))
	w.tell(name)
	return took, held
}

// wait waits until all subjects (informers under test) have the wanted objects, for at most lost (a
// minute). It returns how long each subject took, or the constant never. It does not wait for a
// subject that was lost in an earlier round.
func (w *world) wait(ctx context.Context, over time.Time, want *state, subjects []*subject) []time.Duration {
	ctx, cancel := context.WithDeadline(ctx, over.Add(lost))
	defer cancel()
	took := make([]time.Duration, len(subjects))
	var waited sync.WaitGroup
	for i, s := range subjects {
		waited.Go(func() {
			tick := time.NewTicker(look)
			defer tick.Stop()
			for took[i] = never; ; {
				if s.holds(want) {
					took[i], s.lost, s.asked, s.servers = time.Since(over), false, s.requests.String(), w.serversOf(s)
				}
				if took[i] != never || s.lost || ctx.Err() != nil {
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	waited.Wait()
	return took
}

// holds reports whether the subject is current: the wanted objects are in its store and were
// received by its handlers.
func (s *subject) holds(want *state) bool {
	return maps.Equal(s.objects(), want.objects[s.of]) && maps.Equal(s.told(), want.objects[s.of]) && (s.current == nil || s.current())
}

// check records the problems that the subject's histories have found. If the subject is current, it
// also compares whole objects with the server's.
func (s *subject) check(w *world, want *state, current bool) {
	for _, h := range s.histories {
		problems, replays, strays := h.take()
		s.result.Replays += replays
		s.result.Strays += strays
		for _, p := range problems {
			w.problem(s, fmt.Sprintf("%s\n  %s\n  it asked for\n    %v", p, s.trouble(), s.requests))
		}
	}
	if s.problems != nil {
		for _, p := range s.problems() {
			w.problem(s, p)
		}
	}
	if !current || s.content == nil || s.of == "widgets" {
		return
	}
	for key, v := range want.objects[s.of] {
		o, err := s.content(key)
		if err != nil || !apiequality.Semantic.DeepEqual(o, want.whole[key]) {
			w.problem(s, fmt.Sprintf("%v: %s at %v is another object than the server's: %v, %v, not %v", s, key, v, o, err, want.whole[key]))
			return
		}
	}
}

// problem records a problem of a subject (an informer under test). It fails the test, except for a
// control that is directly connected to the API servers: client-go alone causes such a problem.
func (w *world) problem(s *subject, text string) {
	s.result.Problems++
	if s.control && s.way == "direct" {
		text = "the control, " + text
	} else {
		w.failed = true
	}
	w.problems = append(w.problems, text)
}

// If there were problems since the previous call, tell reports them. It also reports the faults and
// the other events since the previous call.
func (w *world) tell(name string) {
	w.t.Helper()
	events := w.takeEvents()
	if len(w.problems) == 0 {
		return
	}
	text := fmt.Sprintf("%s:\n%s\nwhat was done to the world:\n  %s", name, strings.Join(w.problems, "\n"), strings.Join(events, "\n  "))
	if w.problems = nil; w.failed {
		w.t.Error(text)
	} else {
		w.t.Log(text)
	}
	w.failed = false
}

// restore restores the backup of etcd. Writes continue until etcd has passed the revision that it
// had before the restore, and for some time after that. The caller has stopped the controls:
// client-go need not notice a restore, and controller-runtime's read-your-writes would wait for a
// version that no longer exists.
func (w *world) restore(ctx context.Context, c *churn, subjects []*subject) {
	w.t.Helper()
	before, err := w.cluster.Revision(ctx)
	w.fatal(err)
	sleep(ctx, time.Second) // the last writes must be delivered before the restore
	for _, s := range subjects {
		for _, h := range s.histories {
			h.wentBack(c.number.Load())
		}
	}
	w.fatal(w.cluster.Restore(ctx))
	after, err := w.cluster.Revision(ctx)
	w.fatal(err)
	w.note("etcd is restored: from revision %d back to %d", before, after)
	w.widgetsServed(ctx)
	c.start(ctx)
	sleep(ctx, restoredFor)
	w.fatal(w.cluster.Advance(ctx, before+1))
	w.note("the revisions have come again")
	sleep(ctx, restoredFor)
	all, _ := w.settle(ctx, fmt.Sprintf("restore (from %d back to %d)", before, after), c, subjects)
	for i, took := range all {
		subjects[i].result.Restored = append(subjects[i].result.Restored, took.Seconds())
	}
}
