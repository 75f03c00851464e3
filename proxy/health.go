package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// probeTimeout bounds a question to the upstream whether it is there, probeEvery how often it is asked.
	probeTimeout = 2 * time.Second
	probeEvery   = time.Second
)

// health remembers whether the upstream answers. Safe for concurrent use.
type health struct {
	client rest.Interface

	mu    sync.Mutex
	begun time.Time // of the last question
	at    time.Time // of its end
	err   error
}

// probe asks the upstream, unless it was asked just now.
func (p *health) probe(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= probeEvery {
		p.ask(ctx)
	}
	return p.err
}

// reached reports whether the upstream answers anything, by a question that was begun after that time.
func (p *health) reached(ctx context.Context, begun time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun.After(begun) {
		p.ask(ctx)
	}
	return p.err == nil || hasStatus(p.err)
}

// ask asks the upstream. The lock is held: who comes meanwhile waits for the same answer.
func (p *health) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.begun = time.Now()
	_, p.err = p.client.Get().AbsPath(probePath).DoRaw(ctx)
	p.at = time.Now()
}

// serveHealth answers /livez, which asks whether the process is well, and /readyz, which asks whether it is current: a proxy whose upstream
// is down goes on serving what it may, but is not ready.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	var report strings.Builder
	failed := false
	note := func(name, why string) {
		if why == "" {
			fmt.Fprintf(&report, "[+]%s ok\n", name)
			return
		}
		failed = true
		fmt.Fprintf(&report, "[-]%s failed: %s\n", name, why)
	}
	note("ping", "")
	if r.URL.Path == "/readyz" {
		why := ""
		if stage(s.stage.Load()) != running {
			why = "the proxy is shutting down"
		}
		note("shutdown", why)
		why = ""
		if s.health.probe(r.Context()) != nil {
			why = "the upstream API server does not answer"
		}
		note("upstream", why)
		why = ""
		if !s.authn.ready() {
			why = "the CAs of callers are not read yet"
		}
		note("authentication", why)
		for _, h := range s.holdings.all() {
			if h.named {
				note("resource/"+h.name(), h.trouble())
			}
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case failed:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(&report, "%s check failed\n", name)
	case !r.URL.Query().Has("verbose"):
		report.Reset()
		report.WriteString("ok")
	default:
		fmt.Fprintf(&report, "%s check passed\n", name)
	}
	_, _ = w.Write([]byte(report.String()))
}

// trouble is why the resource is not current, empty while it is. Whoever asks need not be known, so it names no details.
func (h *held) trouble() string {
	switch {
	case h.session.Load() == nil:
		return "not held yet"
	case h.failure.Load() != nil:
		return "not current"
	}
	return ""
}
