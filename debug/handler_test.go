package debug

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is a text that no page may show.
const secret = "hunter2"

// mounted serves the debug page under a path. An informer of Secrets, which has an event handler,
// runs in the process.
func mounted(t *testing.T) (url string) {
	t.Helper()
	l := newLooking(t)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-a-customer"}, StringData: map[string]string{"password": secret}, Data: map[string][]byte{"password": []byte(secret)}}
	if _, err := l.client.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	run(t, l.config)
	mux := http.NewServeMux()
	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", Handler()))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL + "/debug/weir/"
}

// run runs an informer of Secrets until the test ends.
func run(t *testing.T, config *rest.Config) {
	t.Helper()
	inf, err := weir.NewInformer[*corev1.Secret](config, weir.Options{Name: "secrets <b>"})
	check.NoError(t, err)
	r, err := inf.Handle(func(context.Context, weir.Event[*corev1.Secret]) {}, weir.HandlerOptions[*corev1.Secret]{Name: "look", Resync: time.Hour})
	check.NoError(t, err)
	untilEnd(t, inf.Run, r.WaitForSync)
	untilWatching(t, inf)
}

// untilWatching waits until the informer's phase is PhaseWatching. Its handlers have then received
// the first list.
func untilWatching(t *testing.T, inf *weir.Informer[*corev1.Secret]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.Eventually(t, ctx, "it watches", func() bool { return inf.Status()[0].Phase == weir.PhaseWatching })
}

// untilEnd calls run in a goroutine, with a context that ends with the test. It returns when synced
// has returned.
func untilEnd(t *testing.T, run, synced func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	within(t, synced)
}

// within calls wait with a deadline of a minute.
func within(t *testing.T, wait func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.NoError(t, wait(ctx))
}

func get(t *testing.T, method, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	check.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	check.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.NoError(t, err)
	return resp, string(body)
}

func TestJSON(t *testing.T) {
	url := mounted(t)
	resp, body := get(t, http.MethodGet, url+"informers")
	var got report
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != http.StatusOK || len(got.Informers) != 1 {
		t.Fatalf("%s %v\n%s", resp.Status, err, body)
	}
	i := got.Informers[0]
	if i.Name != "secrets <b>" || i.APIVersion != "v1" || i.Kind != "Secret" || i.Objects != 1 || i.ResourceVersion == "" || i.MemoryBytes["packed"] == 0 {
		t.Errorf("%+v", i)
	}
	if i.Requests == nil || i.Requests.Lists == 0 || i.Requests.ReceivedBytes == 0 {
		t.Errorf("requests: %+v", i.Requests)
	}
	if len(i.Reflectors) != 1 || !i.Reflectors[0].Synced || i.Reflectors[0].Phase != "watching" || i.Reflectors[0].Heard.IsZero() || i.Reflectors[0].CurrentAt.IsZero() || i.Reflectors[0].Error != "" {
		t.Errorf("reflectors: %+v", i.Reflectors)
	}
	if last := i.Reflectors[0].Transitions; len(last) < 3 || last[0].After != "started" || last[len(last)-1].Phase != "watching" || i.Reflectors[0].Relists != 0 {
		t.Errorf("transitions: %+v", last)
	}
	if len(i.Handlers) != 1 || i.Handlers[0].Name != "look" || i.Handlers[0].Events != 1 || !i.Handlers[0].Synced || i.Handlers[0].ResyncSeconds != 3600 || i.Handlers[0].CallSeconds <= 0 {
		t.Errorf("handlers: %+v", i.Handlers)
	}
	if strings.Contains(body, secret) || strings.Contains(body, "of-a-customer") {
		t.Errorf("it shows an object:\n%s", body)
	}
}

// TestPage checks that the page names no other host, so a browser sends requests only to the page's
// server. The response's headers must forbid caching.
func TestPage(t *testing.T) {
	url := mounted(t)
	resp, body := get(t, http.MethodGet, url)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Fatal(resp.Status)
	}
	if resp.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%v", resp.Header)
	}
	for name, kind := range map[string]string{"page.js": "text/javascript", "page.css": "text/css"} {
		part, text := get(t, http.MethodGet, url+name)
		if part.StatusCode != http.StatusOK || !strings.HasPrefix(part.Header.Get("Content-Type"), kind) || !strings.Contains(body, `"`+name+`"`) {
			t.Errorf("%s: %s %v", name, part.Status, part.Header)
		}
		body += text
	}
	if rest := strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""); strings.Contains(rest, "://") || strings.Contains(rest, "innerHTML") {
		t.Error("it names another host, or writes text as HTML")
	}
}

func TestRefused(t *testing.T) {
	url := mounted(t)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPost, "informers", http.StatusMethodNotAllowed}, {http.MethodDelete, "", http.StatusMethodNotAllowed},
		{http.MethodGet, "else", http.StatusNotFound}, {http.MethodGet, "informers/secrets", http.StatusNotFound},
		{http.MethodHead, "informers", http.StatusOK}, {http.MethodHead, "stream", http.StatusOK},
	} {
		if resp, _ := get(t, c.method, url+c.path); resp.StatusCode != c.want {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, resp.Status, c.want)
		}
	}
}

// listen opens a stream of events. It returns the response's status, a function that waits for the
// next event and returns its text, and a function that ends the stream.
func listen(t *testing.T, url string) (status int, next func(into any) string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	check.NoError(t, err)
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	check.NoError(t, err)
	lines := bufio.NewReader(resp.Body)
	next = func(into any) string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			check.NoError(t, err)
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				check.NoError(t, json.Unmarshal([]byte(data), into))
				return data
			}
		}
	}
	end = func() { cancel(); resp.Body.Close() }
	t.Cleanup(end)
	return resp.StatusCode, next, end
}

func TestStream(t *testing.T) {
	url := mounted(t)
	status, next, _ := listen(t, url+"stream")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	var first, second report
	next(&first)
	next(&second)
	if len(first.Informers) != 1 || !second.Time.After(first.Time) {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// TestStreamsAreBounded checks that a stream above the limit is refused until another stream has
// ended.
func TestStreamsAreBounded(t *testing.T) {
	url := mounted(t)
	var ends []func()
	for range maxStreams {
		status, next, end := listen(t, url+"stream")
		if status != http.StatusOK {
			t.Fatal(status)
		}
		next(&report{})
		ends = append(ends, end)
	}
	if status, _, _ := listen(t, url+"stream"); status != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", status)
	}
	ends[0]()
	deadline := time.Now().Add(time.Minute)
	for status := 0; status != http.StatusOK; status, _, _ = listen(t, url+"stream") {
		if time.Now().After(deadline) {
			t.Fatal("none is free after one has ended")
		}
	}
}
