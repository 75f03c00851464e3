package debugpage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// unhealthy are the names of the crowd's informers that need attention, in the order of the page.
var unhealthy = []struct{ name, standing, text, hint string }{
	{"ingress-classes", "error", "the server cannot be reached", "kubectl get --raw /readyz"},
	{"leases", "error", "forbidden", "kubectl auth can-i list"},
	{"orders", "error", "unauthorized", "service account token"},
	{"widgets", "error", "the server has no such resource", "CustomResourceDefinition"},
	{"slow-audit", "behind", "handler write to disk is", "work queue"},
	{"deployments", "stuck", "handler reconcile has been in one call for", "goroutine stack"},
	{"webhooks", "panicked", "handler convert has panicked", "log contains the stacks"},
}

// crowd runs n informers of one server whose pods change. Seven of them are unhealthy. It returns
// the page's address.
func crowd(t testing.TB, n int) (page string) {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{Pods: 300, Seed: 1, Churn: 20})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	w := &world{t: t}
	cfg := server.Config()
	refusing := func(code int) *rest.Config {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(refusing.Close)
		return &rest.Config{Host: refusing.URL}
	}
	var held sync.Mutex
	held.Lock()
	t.Cleanup(held.Unlock)
	start(w, &rest.Config{Host: "http://127.0.0.1:1"}, "ingress-classes", "count", 0, ignore[*corev1.Node])
	start(w, refusing(http.StatusForbidden), "leases", "count", 0, ignore[*corev1.Node])
	start(w, refusing(http.StatusUnauthorized), "orders", "count", 0, ignore[*corev1.Node])
	start(w, refusing(http.StatusNotFound), "widgets", "count", 0, ignore[*corev1.Node])
	start(w, cfg, "slow-audit", "write to disk", 0, func(ctx context.Context, _ weir.Event[*corev1.Pod]) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	})
	start(w, cfg, "deployments", "reconcile", 0, func(context.Context, weir.Event[*corev1.Pod]) { reconcileUnderLock(&held) })
	var once sync.Once
	start(w, cfg, "webhooks", "convert", 0, func(context.Context, weir.Event[*corev1.Pod]) { once.Do(func() { panic("no conversion") }) })
	for i := range n - len(unhealthy) {
		name := fmt.Sprintf("team-%02d/%s", i, [...]string{"pods", "configmaps", "secrets", "namespaces"}[i%4])
		switch i % 4 {
		case 0:
			start(w, cfg, name, "reconcile", 10*time.Minute, ignore[*corev1.Pod])
		case 1:
			start(w, cfg, name, "reconcile", 0, ignore[*corev1.ConfigMap])
		case 2:
			start(w, cfg, name, "reconcile", 0, ignore[*corev1.Secret])
		case 3:
			start(w, cfg, name, "reconcile", 0, ignore[*corev1.Namespace])
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler(debug.Link{Name: "metrics", URL: "/metrics"})))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL + "/debug/weir/"
}

func ignore[T weir.Object](context.Context, weir.Event[T]) {}

// reconcileUnderLock blocks until the test has ended.
func reconcileUnderLock(held *sync.Mutex) {
	held.Lock()
	defer held.Unlock()
}

// TestCrowd tests the page of 102 informers, seven of which are unhealthy.
func TestCrowd(t *testing.T) {
	page := crowd(t, 102)
	in := browser(t)
	t.Run("order", func(t *testing.T) { order(t, open(t, in, page, 1440, 900, false), page) })
	t.Run("phone", func(t *testing.T) {
		p := open(t, in, page, 390, 844, true)
		p.expand("deployments")
		p.says(details("deployments"), "reconcileUnderLock")
		p.do(script(row("deployments") + ".scrollIntoView()"))
		p.shoot("debug-phone.png")
		p.well(page)
		p.close()
	})
	t.Run("in place", func(t *testing.T) { inPlace(t, open(t, in, page, 1440, 900, false)) })
	t.Run("filter", func(t *testing.T) { filters(t, open(t, in, page, 1440, 900, false)) })
	t.Run("keyboard", func(t *testing.T) { byKeyboard(t, open(t, in, page, 1440, 900, false)) })
	t.Run("copy", func(t *testing.T) { copies(t, open(t, in, page, 1440, 900, false)) })
	t.Run("accessible", func(t *testing.T) { accessible(t, in, page, "deployments", "team-00/pods") })
}

// order checks that the unhealthy informers come first, each with a hint, and then the others by
// name; and that the summary links to them.
func order(t *testing.T, p *tab, page string) {
	p.says("document.getElementById('summary')", "7 of 102 need attention")
	p.shows("document.querySelectorAll('.rows tbody > tr').length === 102")
	names := value[[]string](p, "[...document.querySelectorAll('.rows tbody th button')].map(b => b.innerText)")
	for n, want := range unhealthy {
		if names[n] != want.name {
			t.Errorf("row %d is %s, want %s", n, names[n], want.name)
		}
		p.says(row(want.name), want.standing, want.text)
	}
	if names[7] != "team-00/pods" || names[101] != "team-94/secrets" {
		t.Errorf("the healthy informers are %q to %q", names[7], names[101])
	}
	p.shoot("debug.png")
	for n, want := range unhealthy {
		// The link opens the row and moves the focus to it.
		p.do(script(fmt.Sprintf("document.querySelectorAll('#attention a')[%d].click()", n)))
		p.shows(fmt.Sprintf("document.activeElement.innerText === %q", want.name))
		p.says(details(want.name), want.text, "What to do:", want.hint)
	}
	p.says(details("deployments"), "reconcileUnderLock", "crowd_test.go:")
	p.well(page)
	p.close()
}

// updates waits until the page has been updated twice.
func (p *tab) updates() {
	p.t.Helper()
	for range 2 {
		p.do(script("window.updated = document.getElementById('at').innerText"))
		p.shows("document.getElementById('at').innerText !== window.updated")
	}
}

// inPlace checks that updates keep the user's selection, the focus, typed text and what is open,
// even if rows change their order.
func inPlace(t *testing.T, p *tab) {
	p.expand("team-00/pods")
	p.says(details("team-00/pods"), "Last transitions")
	p.do(script(details("team-00/pods")+".querySelector('details').open = true"), script(details("team-00/pods")+".querySelector('input').focus()"), chromedp.KeyEvent("half"))
	p.do(script("window.kept = [" + row("team-00/pods") + ", " + details("team-00/pods") + ".querySelector('li'), document.activeElement]"))
	p.updates()
	p.shows("window.kept.every(e => e.isConnected) && document.activeElement === window.kept[2] && window.kept[2].value === 'half'")
	p.shows(details("team-00/pods") + ".querySelector('details').open")
	// The selected text changes every second, but not while it is selected. Then it does.
	problem := row("deployments") + ".lastElementChild"
	p.says(problem, "handler reconcile has been")
	p.do(script("getSelection().setBaseAndExtent(" + problem + ".firstChild, 0, " + problem + ".firstChild, 40); window.chosen = [getSelection().toString(), " + problem + ".innerText]"))
	p.updates()
	p.shows("getSelection().toString() === window.chosen[0] && window.chosen[0].length === 40 && " + problem + ".innerText === window.chosen[1]")
	p.do(script("getSelection().removeAllRanges()"))
	p.shows(problem + ".innerText !== window.chosen[1]")
	// A row that moves to the top takes the focus with it.
	p.do(script(row("team-40/pods") + ".querySelector('button').focus()"))
	first := "document.querySelector('.rows tbody th button')"
	p.do(script("(r => { const i = r.informers.findIndex(i => i.name === 'team-40/pods'); r.informers.unshift(...r.informers.splice(i, 1)); update(r); window.atTop = " + first + ".innerText; })(structuredClone(latest))"))
	p.shows("window.atTop === 'team-40/pods'")
	p.shows("document.activeElement.innerText === 'team-40/pods'")
	p.updates()
	p.shows(first + ".innerText === 'ingress-classes' && document.activeElement.innerText === 'team-40/pods'")
	if names := value[[]string](p, "[...document.querySelectorAll('.rows tbody th button')].map(b => b.innerText)"); !slices.IsSorted(names[len(unhealthy):]) {
		t.Errorf("the healthy informers are in this order: %q", names[len(unhealthy):])
	}
	p.close()
}

// filters checks that the filter hides rows, and says how many are shown.
func filters(t *testing.T, p *tab) {
	shown := "[...document.querySelectorAll('.rows tbody tr')].filter(r => r.offsetParent).length"
	p.shows(shown + " === 102")
	p.do(chromedp.SendKeys("#filter", "team Secret"))
	p.shows(shown + " === 24")
	p.says("document.getElementById('matches')", "24 of 102 shown")
	p.updates()
	p.shows(shown + " === 24")
	p.do(script("document.getElementById('filter').value = ''; filter()"), chromedp.Click("#only"))
	p.shows(shown + " === 7")
	p.do(chromedp.SendKeys("#filter", "no such resource"))
	p.shows(shown + " === 1")
	p.close()
}

// byKeyboard opens a row and the history of an object, and closes both, with the keyboard only. The
// focus must be visible.
func byKeyboard(t *testing.T, p *tab) {
	p.shows("document.querySelectorAll('.rows tbody > tr').length === 102")
	focus := func(expression string) {
		t.Helper()
		for range 60 {
			if value[bool](p, "Boolean("+expression+")") {
				if value[string](p, "getComputedStyle(document.activeElement).outlineStyle") == "none" {
					t.Errorf("no visible focus: %s", expression)
				}
				return
			}
			p.do(chromedp.KeyEvent(kb.Tab))
		}
		t.Fatalf("no Tab reaches %s", expression)
	}
	focus("document.activeElement.id === 'filter'")
	focus("document.activeElement.innerText === 'leases' && document.activeElement.matches('.open')")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.shows("document.activeElement.getAttribute('aria-expanded') === 'true'")
	p.says(details("leases"), "What to do")
	focus("document.activeElement.dataset.copy")
	focus("document.activeElement.matches('summary')")
	p.do(chromedp.KeyEvent(" "))
	p.shows("document.activeElement.parentElement.open")
	focus("document.activeElement.name === 'key'")
	p.do(chromedp.KeyEvent("default/a" + kb.Enter))
	p.says(details("leases")+".querySelector('.history')", "is not stored")
	focus("'close' in document.activeElement.dataset")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.shows("document.activeElement.name === 'key'")
	p.do(script(row("leases")+".querySelector('button').focus()"), chromedp.KeyEvent(kb.Enter))
	p.shows("document.activeElement.getAttribute('aria-expanded') === 'false'")
	p.close()
}

// copies checks that the button copies everything about one informer, also if the browser permits
// no access to the clipboard.
func copies(t *testing.T, p *tab) {
	p.expand("deployments")
	p.says(details("deployments"), "reconcileUnderLock")
	for _, clipboard := range []string{"{writeText: async text => { window.copied = text; }}", "undefined"} {
		p.do(script("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: "+clipboard+"}); window.copied = ''"),
			script("document.addEventListener('copy', () => { window.copied = document.activeElement.value; }, {once: true})"),
			script(details("deployments")+".querySelector('[data-copy]').click()"))
		p.shows("window.copied")
		text := value[string](p, "window.copied")
		for _, part := range []string{"deployments: stuck\n", "pid: ", "hint: The handler receives no other event", "reconcileUnderLock\t", "resourceVersion: ", "events/s", "phase: watching"} {
			if !strings.Contains(text, part) {
				t.Errorf("with the clipboard %s it copies no %q:\n%s", clipboard, part, text)
			}
		}
		p.says("document.getElementById('announce')", "copied")
	}
	p.close()
}

// accessible checks the page with axe, at desktop and phone size, light and dark: first as it
// opens, then with open rows, a history and no match of the filter.
func accessible(t *testing.T, in context.Context, page, first, second string) {
	axe := installAxe(t)
	for _, size := range []struct {
		width, height int64
		phone         bool
	}{{1280, 900, false}, {390, 844, true}} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(first, "/", "-"), size.width, scheme)
			p := open(t, in, page, size.width, size.height, size.phone)
			_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			check.NoError(t, err)
			p.do(script(axe + "; 0"))
			p.shows(row(first))
			p.violates(name + " closed")
			p.shoot(name + "-closed.png")
			p.expand(first)
			p.expand(second)
			p.do(script("document.querySelectorAll('details').forEach(d => { d.open = true; })"))
			p.look(second, "default/a")
			p.says(details(second)+".querySelector('.history')", "default/a", "stored")
			p.violates(name + " open")
			p.do(script(row(first) + ".scrollIntoView()"))
			p.shoot(name + "-open.png")
			p.do(script("scrollTo(0, 0)"))
			p.shoot(name + "-top.png")
			p.well(page)
			p.do(script("document.getElementById('filter').value = 'matches nothing'; filter()"))
			p.violates(name + " filtered")
			p.close()
		}
	}
}

// violates fails the test if axe reports a violation of WCAG 2.2 AA, or of its best practices.
func (p *tab) violates(what string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
		r.passes.length > 10 ? r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + ": " + n.failureSummary)) : ["axe checks nothing"])`, chromedp.EvalAwaitPromise))
	check.NoError(p.t, err)
	for _, one := range found {
		p.t.Errorf("%s: %s", what, one)
	}
}

// installAxe returns the source of axe, from the npm registry. It skips the test if there is no
// npm, or if npm cannot install axe.
func installAxe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check.NoError(t, os.CopyFS(dir, os.DirFS("testdata/axe")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Program(t, "npm", "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		testenv.Skip(t, "npm cannot install axe: "+err.Error())
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	check.NoError(t, err)
	return string(text)
}
