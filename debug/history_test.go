package debug

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/testing/check"
)

// looking is an API server whose objects the test changes, and the debug page on which it views the
// changes.
type looking struct {
	t      *testing.T
	config *rest.Config
	url    string
	client *kubernetes.Clientset
}

// newLooking starts an API server and the page, without an informer.
func newLooking(t *testing.T) *looking {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	client, err := kubernetes.NewForConfig(server.Config())
	check.NoError(t, err)
	web := httptest.NewServer(Handler())
	t.Cleanup(web.Close)
	return &looking{t, server.Config(), web.URL + "/", client}
}

// look starts an API server, an informer of objects of type T with a handler, and the page.
func look[T weir.Object](t *testing.T, handler func(context.Context, weir.Event[T])) *looking {
	t.Helper()
	l := newLooking(t)
	inf, err := weir.NewInformer[T](l.config, weir.Options{Name: "looked at"})
	check.NoError(t, err)
	if _, err := inf.Handle(handler, weir.HandlerOptions[T]{Name: "h"}); err != nil {
		t.Fatal(err)
	}
	untilEnd(t, inf.Run, inf.WaitForSync)
	return l
}

// query returns the path and the query of a request for the history of an object.
func query(path, key string) string {
	return path + "?" + url.Values{"informer": {engine.Running()[0].Name}, "key": {key}}.Encode()
}

// stream opens the history of an object. It returns a function that waits for the next event, and a
// function that ends the stream.
func (l *looking) stream(key string) (next func(into any) string, end func()) {
	l.t.Helper()
	status, next, end := listen(l.t, l.url+query("history/stream", key))
	if status != http.StatusOK {
		l.t.Fatal(status)
	}
	return next, end
}

// pod returns a pod with an environment variable whose value the page must hide.
func pod(value string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: value}}}}},
	}
}

// TestHistory checks that the stream of an object's history contains each later change with the
// changed paths, and hides the values of environment variables.
func TestHistory(t *testing.T) {
	l := look(t, func(context.Context, weir.Event[*corev1.Pod]) {})
	pods := l.client.CoreV1().Pods("default")
	next, _ := l.stream("default/a")
	var now historyReport
	if next(&now); now.Held || now.Key != "default/a" || len(now.Changes) != 0 {
		t.Errorf("%+v", now)
	}
	p, err := pods.Create(t.Context(), pod(secret), metav1.CreateOptions{})
	check.NoError(t, err)
	p.Labels, p.Spec.Containers[0].Env[0].Value = map[string]string{"app": "web"}, secret+"!"
	if p, err = pods.Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	for _, want := range []change{
		{Type: "ADDED"},
		{Type: "MODIFIED", ResourceVersion: p.ResourceVersion, Lines: []string{"~ metadata.generation: 1 → 2", "+ metadata.labels.app: web", "~ spec.containers[c].env[PASSWORD].value: (hidden), differs"}},
		{Type: "DELETED"},
	} {
		var got change
		text := next(&got)
		if got.Type != want.Type || got.Time == nil || len(want.Lines) > 0 && (!slices.Equal(got.Lines, want.Lines) || got.ResourceVersion != want.ResourceVersion) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if strings.Contains(text, secret) {
			t.Errorf("it shows a value: %s", text)
		}
	}
}

// TestHistoryOfSecret checks that the history of a Secret shows which keys changed, and no value.
func TestHistoryOfSecret(t *testing.T) {
	l := look(t, func(context.Context, weir.Event[*corev1.Secret]) {})
	secrets := l.client.CoreV1().Secrets("default")
	s, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte(secret)}}, metav1.CreateOptions{})
	check.NoError(t, err)
	s.Data = map[string][]byte{"k": []byte(secret + "!"), "new": []byte(secret)}
	l.expectUpdate(s, "~ data.k: (hidden), differs", "+ data.new: (hidden)")
}

// expectUpdate updates a Secret, and checks that the history shows the lines want.
func (l *looking) expectUpdate(s *corev1.Secret, want ...string) {
	l.t.Helper()
	next, _ := l.stream(s.Namespace + "/" + s.Name)
	next(&historyReport{})
	if _, err := l.client.CoreV1().Secrets(s.Namespace).Update(l.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	got := change{Type: "ADDED"}
	for got.Type == "ADDED" { // the log may still contain the creation of the Secret
		got = change{}
		next(&got)
	}
	if !slices.Equal(got.Lines, want) {
		l.t.Errorf("got %q, want %q", got.Lines, want)
	}
}

// TestHistoryBefore checks that the JSON history contains the changes that are in the log when the
// request starts.
func TestHistoryBefore(t *testing.T) {
	release, seen := make(chan struct{}), make(chan struct{}, 1)
	l := look(t, func(ctx context.Context, _ weir.Event[*corev1.ConfigMap]) {
		select {
		case seen <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
	})
	defer close(release)
	maps := l.client.CoreV1().ConfigMaps("default")
	m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"k": "0"}}, metav1.CreateOptions{})
	check.NoError(t, err)
	<-seen // while the handler handles the object, the log retains the changes
	const changes = maxChanges + 5
	for i := range changes {
		m.Data["k"] = fmt.Sprint(i + 1)
		if m, err = maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	store := engine.Running()[0].Value.Store()
	within(t, func(ctx context.Context) error { return store.WaitResourceVersion(ctx, m.ResourceVersion) })
	resp, body := get(t, http.MethodGet, l.url+query("history", "default/m")+"&for=1ms")
	var got historyReport
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v\n%s", resp.Status, err, body)
	}
	last := got.Changes[len(got.Changes)-1]
	if !got.Held || got.ResourceVersion != m.ResourceVersion || len(got.Changes) != maxChanges || got.More < 5 || last.Time != nil ||
		!slices.Equal(last.Lines, []string{fmt.Sprintf("~ data.k: %q → %q", fmt.Sprint(changes-1), fmt.Sprint(changes))}) {
		t.Errorf("%d changes and %d before, the last %+v", len(got.Changes), got.More, last)
	}
}

// TestHistoryEnds checks that the store retains no changes for a history that has ended.
func TestHistoryEnds(t *testing.T) {
	l := look(t, func(context.Context, weir.Event[*corev1.ConfigMap]) {})
	next, end := l.stream("default/m")
	next(&historyReport{})
	end()
	l.expectNothingKept()
}

// expectNothingKept changes a ConfigMap, and checks that the store retains none of the changes for
// a cursor.
func (l *looking) expectNothingKept() {
	l.t.Helper()
	maps := l.client.CoreV1().ConfigMaps("default")
	m, err := maps.Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	check.NoError(l.t, err)
	const changes, size = 20, 16 << 10
	for range changes {
		random := make([]byte, size)
		_, _ = rand.Read(random)
		m.BinaryData = map[string][]byte{"k": random}
		if m, err = maps.Update(l.t.Context(), m, metav1.UpdateOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	store := engine.Running()[0].Value.Store()
	within(l.t, func(ctx context.Context) error { return store.WaitResourceVersion(ctx, m.ResourceVersion) })
	deadline := time.Now().Add(time.Minute)
	// If no cursor retains the changes, the log drops them, and then has only free slots.
	for held := store.Memory(); held.Log+held.Cursors > size; held = store.Memory() {
		if time.Now().After(deadline) {
			l.t.Fatalf("%d bytes are kept for a cursor", held.Log+held.Cursors)
		}
	}
}

// stuckWriter is the ResponseWriter of a client that reads nothing until the test has checked the
// store.
type stuckWriter struct {
	*httptest.ResponseRecorder
	look     func()
	deadline time.Time
}

func (w *stuckWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.look()
	return w.ResponseRecorder.Write(p)
}

// TestStuckClient checks that the handler sets a deadline for writing a JSON response. A client
// that does not read then blocks the handler only until the deadline. Meanwhile the store must
// retain no changes for the history.
func TestStuckClient(t *testing.T) {
	l := look(t, func(context.Context, weir.Event[*corev1.ConfigMap]) {})
	for path, look := range map[string]func(){"informers": func() {}, query("history", "default/m"): l.expectNothingKept} {
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), look: look}
		Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+path, nil))
		if w.Code != http.StatusOK || w.deadline.IsZero() {
			t.Errorf("%s: %d, to be written until %v", path, w.Code, w.deadline)
		}
	}
}

// TestHistoriesAreBounded checks that the handler refuses invalid requests, and histories above
// maxHistories.
func TestHistoriesAreBounded(t *testing.T) {
	l := look(t, func(context.Context, weir.Event[*corev1.Pod]) {})
	for path, want := range map[string]int{
		query("history", "") + "&x": http.StatusBadRequest, "history?informer=other&key=a": http.StatusNotFound,
		"history?proxy=none&resource=pods&key=a": http.StatusNotFound, "history?proxy=none&informer=looked+at&key=a": http.StatusNotFound,
		query("history", "a") + "&for=1h": http.StatusBadRequest, query("history", "a") + "&for=-1s": http.StatusBadRequest,
		query("history", "a"): http.StatusOK, query("history/stream", ""): http.StatusBadRequest,
	} {
		if resp, body := get(t, http.MethodGet, l.url+path); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d: %s", path, resp.Status, want, body)
		}
	}
	if resp, _ := get(t, http.MethodHead, l.url+query("history/stream", "a")); resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %s", resp.Status)
	}
	for range maxHistories {
		next, _ := l.stream("default/a")
		next(&historyReport{})
	}
	if resp, _ := get(t, http.MethodGet, l.url+query("history", "default/a")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %s", resp.Status)
	}
}
