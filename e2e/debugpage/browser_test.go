package debugpage

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var screenshots = flag.String("debugpage.screenshots", "", "write screenshots of the pages to this folder")

const patience = 3 * time.Minute

// browser starts a headless Chromium that does not check for updates.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := testenv.Program(t, "chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), flags...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return ctx
}

type tab struct {
	t     testing.TB
	ctx   context.Context
	close func()

	mu     sync.Mutex
	asked  []string // URLs
	errors []string // errors that the browser has reported
}

// open opens a page in a window of the given size in pixels. phone emulates a phone's touch screen.
func open(t testing.TB, in context.Context, address string, width, height int64, phone bool) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, close: cancel}
	check.NoError(t, chromedp.Listen(ctx, p.note))
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
		func() error { _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); return err },
	} {
		check.NoError(t, enable())
	}
	emulation := []chromedp.EmulateViewportOption{}
	if phone {
		emulation = append(emulation, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	p.do(chromedp.EmulateViewport(width, height, emulation...), chromedp.Navigate(address))
	return p
}

// note records a request or an error of the page.
func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		p.errors = append(p.errors, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

// do runs actions, and fails the test if one fails.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	check.NoError(p.t, chromedp.Do(ctx, actions...))
}

func script(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](text)
}

// value returns the value of a JavaScript expression that the page evaluates.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// shows waits until a JavaScript expression is true in the page.
func (p *tab) shows(expression string) {
	p.t.Helper()
	poll := chromedp.Poll[chromedp.Void]("Boolean("+expression+")", chromedp.WithPollingTimeout(patience), chromedp.WithPollingInterval(50*time.Millisecond))
	if err := chromedp.Do(p.ctx, poll); err != nil {
		p.t.Fatalf("%s: %v\nit shows %s", expression, err, p.text("document.body"))
	}
}

// text returns the text of an element.
func (p *tab) text(element string) string { return value[string](p, element+".innerText") }

// says waits until the text of an element contains all of the texts. element is a JavaScript
// expression.
func (p *tab) says(element string, texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.shows(fmt.Sprintf("%s?.innerText.includes(%q)", element, text))
	}
}

// well checks that the page sent requests only to the server of this address, had no errors, and is
// no wider than the window.
func (p *tab) well(address string) {
	p.t.Helper()
	own, err := url.Parse(address)
	check.NoError(p.t, err)
	if wide := value[[]int](p, "[document.documentElement.scrollWidth, innerWidth]"); wide[0] > wide[1] {
		p.t.Errorf("it is %d wide in a window of %d", wide[0], wide[1])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, asked := range p.asked {
		if u, err := url.Parse(asked); err != nil || u.Scheme != "data" && u.Host != own.Host {
			p.t.Errorf("it asks for %s", asked)
		}
	}
	if len(p.asked) < 4 || len(p.errors) > 0 {
		p.t.Errorf("asked for %q, errors %q", p.asked, p.errors)
	}
}

// shoot takes a screenshot of the page and checks its width. It writes the screenshot to a file
// only if the flag -debugpage.screenshots is set.
func (p *tab) shoot(name string) {
	p.t.Helper()
	raw, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	check.NoError(p.t, err)
	picture, err := png.DecodeConfig(bytes.NewReader(raw))
	if err != nil || picture.Width < 300 {
		p.t.Errorf("%s: %+v %v", name, picture, err)
	}
	if *screenshots == "" {
		return
	}
	check.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name), raw, 0o644))
}

// row returns a JavaScript expression for the row of an informer, or of a resource, whose name
// starts with name. details returns an expression for the details below the row.
func row(name string) string {
	return fmt.Sprintf("([...document.querySelectorAll('.rows tbody th')].find(h => h.innerText.startsWith(%q))?.parentElement)", name)
}

func details(name string) string { return "(" + row(name) + "?.nextElementSibling)" }

// expand opens the details of a row.
func (p *tab) expand(name string) {
	p.t.Helper()
	p.shows(row(name))
	p.do(script(row(name) + ".querySelector('button').click()"))
	p.shows(details(name) + "?.querySelector('form')") // the server has sent the details
}
