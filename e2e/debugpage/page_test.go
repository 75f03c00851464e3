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
}

// desktop checks that the page shows all informers and the proxy. It also checks that the page
// updates itself without being reloaded.
func (w *world) desktop(t *testing.T, p *tab) {
	p.says("document.getElementById('state')", "1 proxy, 7 informers running")
	p.says(section("pods v1 Pod"), "2,000", "packed", "1 list, 1 watch", "watching for", "reconcile", "% of 10 min", "longest call")
	p.says(section("*v1.Pod"), "2,000", "cache.ResourceEventHandlerFuncs")
	p.says(section("configmaps"), "ADDED", "default/stuck")
	p.says(section("lost"), "never", "the server cannot be reached", "next try in")
	p.shows(section("pods") + ".querySelectorAll('polyline').length === 4")
	// The chart has data of several seconds.
	p.shows(section("pods") + ".querySelector('polyline').getAttribute('points').split(' ').length > 4")
	p.do(script("window.loaded = 'once'"))
	w.configMap("another", "green")
	p.says(section("configmaps"), "objects\n2,")
	p.shows("window.loaded === 'once'")
	// An open section stays open when the page is redrawn.
	p.do(script(section("lost") + ".querySelector('details').open = true"))
	p.says(section("lost"), "what happened", "started", "wait ", "failed: asking: the server cannot be reached")
	p.do(script("window.drawn = " + section("lost")))
	p.shows("!window.drawn.isConnected")
	p.says(section("lost"), "what happened")
	p.do(script(section("lost")+".querySelector('details').open = false"), script(section("pods v1 Pod")+".querySelector('details').open = true"))
	p.says(section("pods v1 Pod"), "the list ended", "WATCH resourceVersion=")
	p.draw()
	p.do(script(section("*v1.Pod") + ".scrollIntoView()"))
	p.shoot("debug.png")
	p.well(w.page)
	w.until("stream", 1)
	p.close()
	w.until("stream", 0) // without an open page, the process collects no data
}

// phone checks that the page is readable in a narrow window.
func (w *world) phone(t *testing.T, p *tab) {
	p.says(section("pods v1 Pod"), "2,000", "watching for")
	if wide := value[int](p, "[...document.querySelectorAll('section > div')].filter(d => d.scrollWidth > d.clientWidth).length"); wide > 0 {
		t.Errorf("%d tables are wider than the window", wide)
	}
	p.draw()
	p.do(script(section("pods v1 Pod") + ".scrollIntoView()"))
	p.shoot("debug-phone.png")
	p.well(w.page)
	small := "[...document.querySelectorAll('main *')].filter(e => e.innerText && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.innerText)"
	if small := value[[]string](p, small); len(small) > 0 {
		t.Errorf("too small to read: %q", small)
	}
	p.close()
}

// history checks that the history view shows the changes of one object. It also checks that the
// view's request ends when the view is closed.
func (w *world) history(t *testing.T, p *tab) {
	w.until("history/stream", 0)
	p.shows(section("configmaps") + "?.querySelector('button.key')")
	p.do(script(section("configmaps") + ".querySelector('button.key').click()"))
	p.says("document.getElementById('history')", "default/stuck", "is stored at")
	w.until("history/stream", 1)
	w.configMap("stuck", "blue")
	p.says("document.getElementById('changes')", "MODIFIED", "~ data.colour: red -> blue")
	// Open the history of another object by its key.
	p.do(chromedp.SetValue("#key", "default/later"), chromedp.Click("#open"))
	p.says("document.getElementById('history')", "default/later", "is not stored")
	w.until("history/stream", 1)
	w.configMap("later", "white")
	p.says("document.getElementById('changes')", "ADDED")
	w.configMap("later", "black")
	p.says("document.getElementById('changes')", "~ data.colour: white -> black")
	p.says("document.getElementById('held')", "is stored at")
	p.do(script("scrollTo(0, 0)"))
	p.shoot("debug-history.png")
	p.do(chromedp.Click("#close"))
	w.until("history/stream", 0)
	p.shows("document.getElementById('history').hidden")
	p.well(w.page)
	p.close()
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
	look := func(informer, key string) {
		t.Helper()
		p.shows("[...document.querySelectorAll('#of option')].some(o => o.innerText === '" + informer + "')")
		p.do(script(fmt.Sprintf("document.getElementById('of').value = JSON.stringify({informer: %q})", informer)),
			chromedp.SetValue("#key", key), chromedp.Click("#open"))
		p.says("document.getElementById('history')", key, "is stored at")
	}
	look("secrets", "default/s")
	s.Data["password"] = []byte(hush + "!")
	s.StringData = nil
	if _, err := core.Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.says("document.getElementById('changes')", "~ data.password: (hidden), differs")
	look("pods", "default/p")
	pod.Spec.Containers[0].Env[0].Value = hush + "!"
	if _, err := core.Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.says("document.getElementById('changes')", "~ spec.containers[0].env[0].value: (hidden), differs")
	if text := p.text("document.documentElement"); strings.Contains(text, hush) || strings.Contains(text, "aHVudGVy") {
		t.Errorf("it shows a value: %s", text)
	}
	p.close()
	w.until("history/stream", 0) // the request ends with the page
}

// throughProxy checks that the page shows the proxy's resources and clients, and the changes of an
// object that the proxy has cached.
func (w *world) throughProxy(t *testing.T, p *tab) {
	name := "proxy " + w.proxy.URL()
	p.says("document.querySelector('.proxy')", name, "jane", "kubelet/v1.37", "joan", "controller/2", "long-running requests")
	p.says(section("configmaps v1 current"), "heard", "watchers", "watching for")
	p.says(section("pods v1 current"), "2,", "2; the slowest is")
	of := fmt.Sprintf("JSON.stringify({proxy: %q, resource: 'configmaps'})", w.proxy.URL())
	p.shows("[...document.querySelectorAll('#of option')].some(o => o.value === " + of + ")")
	p.do(script("document.getElementById('of').value = "+of), chromedp.SetValue("#key", "default/stuck"), chromedp.Click("#open"))
	// This change happened before the history was opened. The proxy reads it from the log of its
	// store.
	p.says("document.getElementById('changes')", "before ADDED", "~ data.colour: red -> blue")
	p.do(chromedp.Click("#close"))
	p.draw()
	p.do(script("scrollTo(0, 0)"))
	p.shoot("debug-proxy.png")
	p.well(w.page)
	p.close()
}
