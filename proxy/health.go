package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// probeTimeout bounds a question to the upstream whether it is there, probeEvery how often it
	// is asked.
	probeTimeout = 2 * time.Second
	probeEvery   = time.Second
)

// health remembers whether the upstream answers. Safe for concurrent use.
type health struct {
	client  rest.Interface
	reviews authorizationclient.SubjectAccessReviewInterface

	mu    sync.Mutex
	begun time.Time // of the last question
	at    time.Time // of its end
	err   error

	reviewed time.Time // when it was asked about somebody last
	identity error     // what came of that
}

// check asks the upstream whether it is there, and whether it answers questions about callers,
// unless it was asked just now.
func (p *health) check(ctx context.Context) (upstream, identity error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= probeEvery {
		p.query(ctx)
	}
	if time.Since(p.reviewed) >= probeEvery {
		p.reviewIdentity(ctx)
	}
	return p.err, p.identity
}

// reviewIdentity asks the upstream what nobody in particular may do. Any answer will do. The lock
// is held.
func (p *health) reviewIdentity(ctx context.Context) {
	if p.identity = p.err; p.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	_, p.identity = p.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Anonymous, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/readyz"},
	}}, metav1.CreateOptions{})
	p.reviewed = time.Now()
}

// reachedSince reports whether the upstream answers anything, by a question that was begun after
// that time.
func (p *health) reachedSince(ctx context.Context, begun time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun.After(begun) {
		p.query(ctx)
	}
	return p.err == nil || hasStatus(p.err)
}

// query asks the upstream. The lock is held: who comes meanwhile waits for the same answer.
func (p *health) query(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.begun = time.Now()
	_, p.err = p.client.Get().AbsPath(versionPath).DoRaw(ctx)
	p.at = time.Now()
}

// serveHealth answers /livez, which asks whether the process is well, and /readyz, which asks
// whether clients may be sent here: it serves, and can ask who they are and what they may do. A
// proxy whose upstream is down goes on serving what it may, but is not ready: another replica may
// do better. What it names no details of is for everybody to read.
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
	pass := func(name, how string) { fmt.Fprintf(&report, "[+]%s %s\n", name, how) }
	note("ping", "")
	if r.URL.Path == "/readyz" {
		why := ""
		if stage(s.stage.Load()) != stageRunning {
			why = "the proxy is shutting down"
		}
		note("shutdown", why)
		why = ""
		upstream, identity := s.health.check(r.Context())
		if upstream != nil {
			why = "the upstream API server does not answer"
		}
		note("upstream", why)
		why = ""
		if identity != nil {
			why = "the upstream API server does not answer questions about callers"
		}
		note("identity", why)
		why = ""
		if !s.authn.ready() {
			why = "the CAs of callers are not read yet"
		}
		note("authentication", why)
		for _, res := range s.resources.all() {
			if !res.configured {
				continue
			}
			switch as := res.state(); {
			case res.delaysReadiness(time.Now()):
				note("resource/"+res.name(), as.String())
			case as == stateCurrent:
				note("resource/"+res.name(), "")
			case as == stateBehind:
				pass("resource/"+res.name(), "ok, but behind")
			default:
				pass("resource/"+res.name(), "passed on: "+as.String())
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
