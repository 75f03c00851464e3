package debugpage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// TestPage tests the debug page of a process. The process has healthy informers, an informer whose
// handler blocks, an informer whose server cannot be reached, and a proxy. All subtests share one
// browser, because starting a browser takes longer than a subtest.
func TestPage(t *testing.T) {
	w := newWorld(t)
	w.configMap("stuck", "red")
	in := browser(t)
	t.Run("desktop", func(t *testing.T) { w.desktop(t, open(t, in, w.page, 1400, 1000, false)) })
	t.Run("phone", func(t *testing.T) { w.phone(t, open(t, in, w.page, 390, 844, true)) })
	t.Run("history", func(t *testing.T) { w.history(t, open(t, in, w.page, 900, 700, false)) })
	t.Run("secrets", func(t *testing.T) { w.secrets(t, open(t, in, w.page, 900, 700, false)) })
	t.Run("proxy", func(t *testing.T) { w.throughProxy(t, open(t, in, w.page, 1000, 1100, false)) })
	t.Run("accessible", func(t *testing.T) { accessible(t, in, w.page, "configmaps v1", "pods v1 Pod") })
}

// desktop checks that the page shows all informers and the proxy. It also checks that the page
// updates itself without being reloaded, and keeps what is open.
func (w *world) desktop(t *testing.T, p *tab) {
	p.says("document.getElementById('summary')", "need attention")
	p.says("document.getElementById('process')", "pid", "up ", "go1.")
	p.says(row("pods v1 Pod"), "healthy", "2,000")
	p.says(row("*v1.Pod"), "2,000")
	p.says(row("lost"), "error", "never", "the server cannot be reached")
	p.expand("pods v1 Pod")
	p.says(details("pods v1 Pod"), "packed", "1 list, 1 watch", "watching for", "Handler reconcile", "% of 10 min", "longest call", "events/s")
	p.shows(details("pods v1 Pod") + ".querySelectorAll('svg').length === 4")
	p.expand("*v1.Pod")
	p.says(details("*v1.Pod"), "cache.ResourceEventHandlerFuncs")
	p.expand("configmaps v1 ConfigMap")
	p.says(details("configmaps v1 ConfigMap"), "ADDED", "default/stuck")
	p.do(script("window.loaded = 'once'"))
	w.configMap("another", "green")
	p.says(details("configmaps v1 ConfigMap"), "objects\n2\n")
	p.shows("window.loaded === 'once'")
	p.expand("lost")
	p.says(details("lost"), "next try in", "What to do: Check the address")
	p.do(script(details("lost") + ".querySelector('details').open = true"))
	p.says(details("lost"), "started", "wait ", "failed: asking: the server cannot be reached")
	p.do(script(row("lost")+".querySelector('button').click()"), script(details("pods v1 Pod")+".querySelector('details').open = true"))
	p.says(details("pods v1 Pod"), "the list ended", "WATCH resourceVersion=")
	p.well(w.page)
	w.until("stream", 1)
	p.close()
	w.until("stream", 0) // without an open page, no request is open
}

// phone checks that the page is readable in a narrow window.
func (w *world) phone(t *testing.T, p *tab) {
	p.expand("pods v1 Pod")
	p.says(details("pods v1 Pod"), "2,000", "watching for")
	p.well(w.page)
	small := "[...document.querySelectorAll('main *')].filter(e => e.innerText && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.innerText)"
	if small := value[[]string](p, small); len(small) > 0 {
		t.Errorf("too small to read: %q", small)
	}
	p.close()
}

// history checks that the history view shows the changes of one object. It also checks that the
// view's request ends when the view is closed, and when its row is closed.
func (w *world) history(t *testing.T, p *tab) {
	w.until("history/stream", 0)
	p.expand("configmaps v1 ConfigMap")
	history := details("configmaps v1 ConfigMap") + ".querySelector('.history')"
	p.shows(details("configmaps v1 ConfigMap") + ".querySelector('[data-look]')")
	p.do(script(details("configmaps v1 ConfigMap") + ".querySelector('[data-look]').click()"))
	p.says(history, "default/stuck", "is stored at")
	w.until("history/stream", 1)
	w.configMap("stuck", "blue")
	p.says(history, "MODIFIED", "~ data.colour: red → blue")
	p.look("configmaps v1 ConfigMap", "default/later")
	p.says(history, "default/later", "is not stored")
	w.until("history/stream", 1)
	w.configMap("later", "white")
	p.says(history, "ADDED")
	w.configMap("later", "black")
	p.says(history, "~ data.colour: white → black", "is stored at")
	p.do(script(history + ".scrollIntoView({block: 'center'})"))
	p.shoot("debug-history.png")
	p.do(chromedp.Click("[data-close]"))
	w.until("history/stream", 0)
	p.shows(history + ".innerText === ''")
	p.look("configmaps v1 ConfigMap", "default/later")
	w.until("history/stream", 1)
	p.do(script(row("configmaps v1 ConfigMap") + ".querySelector('button').click()"))
	w.until("history/stream", 0)
	p.well(w.page)
	p.close()
}

// look opens the history of an object in the details of a row.
func (p *tab) look(name, key string) {
	p.t.Helper()
	p.do(script(fmt.Sprintf("(() => { const form = %s.querySelector('form'); form.elements.key.value = %q; form.requestSubmit(); })()", details(name), key)))
}

// secrets checks that the history of a Secret shows which keys have changed, but not their values.
// It checks the same for the environment variables of a pod.
func (w *world) secrets(t *testing.T, p *tab) {
	core := w.client.CoreV1()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": hush}, Data: map[string][]byte{"password": []byte(hush)}}
	if _, err := core.Secrets("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: hush}}}}},
	}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	look := func(informer, key string) (changes string) {
		t.Helper()
		p.expand(informer)
		p.look(informer, key)
		history := details(informer) + ".querySelector('.history')"
		p.says(history, key, "is stored at")
		return history
	}
	changes := look("secrets", "default/s")
	s.Data["password"] = []byte(hush + "!")
	s.StringData = nil
	if _, err := core.Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.says(changes, "~ data.password: (hidden), differs")
	changes = look("pods v1 Pod", "default/p")
	pod.Spec.Containers[0].Env[0].Value = hush + "!"
	if _, err := core.Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.says(changes, "~ spec.containers[c].env[PASSWORD].value: (hidden), differs")
	if text := p.text("document.documentElement"); strings.Contains(text, hush) || strings.Contains(text, "aHVudGVy") {
		t.Errorf("it shows a value: %s", text)
	}
	p.close()
	w.until("history/stream", 0) // the request ends with the page
}

// throughProxy checks that the page shows the proxy's resources and clients, and the changes of an
// object that the proxy has cached.
func (w *world) throughProxy(t *testing.T, p *tab) {
	section := "document.querySelector('#proxies section')"
	p.says(section, "Proxy "+w.proxy.URL(), "long-running requests", "Callers that watch")
	p.do(script(section + ".querySelectorAll('details').forEach(d => { d.open = true; })"))
	p.says(section, "Forwarded requests, and why", "requests that are not plain reads of objects", "Seats:", "All seats are free")
	p.says(section, "jane", "kubelet/v1.37", "joan", "controller/2")
	p.says(row("configmaps v1"), "healthy")
	p.expand("configmaps v1")
	p.says(details("configmaps v1"), "current", "Clients", "watching for")
	p.expand("pods v1")
	p.says(row("pods v1"), "2,")
	p.says(details("pods v1"), "2; the slowest is")
	p.look("configmaps v1", "default/stuck")
	// This change happened before the history was opened. The proxy reads it from the log of its
	// store.
	p.says(details("configmaps v1"), "before ADDED", "~ data.colour: red → blue")
	p.do(script(row("configmaps v1")+".querySelector('button').click()"), script("scrollTo(0, 0)"))
	if *screenshots != "" {
		p.shows("document.querySelector('#proxies polyline').getAttribute('points')?.split(' ').length > 6")
	}
	p.shoot("debug-proxy.png")
	p.well(w.page)
	p.close()
}
