package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/review"
)

const (
	// probeTimeout bounds a probe, which is a request that checks the upstream. probeEvery is the
	// minimum time between two probes.
	probeTimeout = 2 * time.Second
	probeEvery   = time.Second
	// slowTime is for an upstream that is slow: if probes time out, /readyz still succeeds until
	// slowTime has passed since the upstream's last answer. slowTime is longer than probeTimeout
	// because all replicas share the upstream. If a busy upstream made all replicas unready, clients
	// would have no replica left.
	slowTime = 10 * time.Second
)

// health checks whether the upstream answers, and caches the result. It is safe for concurrent use.
type health struct {
	client  rest.Interface
	reviews authorizationclient.SubjectAccessReviewInterface

	// mu is also held while a request is in progress, so that concurrent callers share the answer.
	mu                sync.Mutex
	version, reviewed probe
}

type probe struct {
	begun, at time.Time // its start and end
	err       error
	answered  time.Time // end of the last request that succeeded
}

// send sends a request and records its result.
func (p *probe) send(ctx context.Context, request func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.begun = time.Now()
	p.err = request(ctx)
	p.at = time.Now()
	if p.err == nil {
		p.answered = p.at
	}
}

// result returns the error of the last request. It returns nil instead if the error is a timeout
// and the last success is less than slowTime ago.
func (p *probe) result() error {
	if errors.Is(p.err, context.DeadlineExceeded) && time.Since(p.answered) < slowTime {
		return nil
	}
	return p.err
}

// check returns two errors: upstream if the upstream does not answer, and identity if it does not
// answer reviews. A review that denies also counts as an answer. Each result is cached for
// probeEvery. A timeout is an error only if the last success is slowTime ago or longer.
func (p *health) check(ctx context.Context) (upstream, identity error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.version.at) >= probeEvery {
		p.version.send(ctx, p.query)
	}
	switch {
	case time.Since(p.reviewed.at) < probeEvery:
	case p.version.err != nil:
		p.reviewed.err = p.version.err
	default:
		p.reviewed.send(ctx, p.review)
	}
	return p.version.result(), p.reviewed.result()
}

// review sends a SubjectAccessReview to the upstream.
func (p *health) review(ctx context.Context) error {
	_, err := p.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Anonymous, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/readyz"},
	}}, metav1.CreateOptions{})
	return err
}

// query sends a GET of the upstream's version.
func (p *health) query(ctx context.Context) error {
	_, err := p.client.Get().AbsPath(review.VersionPath).DoRaw(ctx)
	return err
}

// reachedSince reports whether the upstream answered a probe that started after the given time
// (begun). An HTTP error also counts as an answer. If there was no such probe, reachedSince sends
// one.
func (p *health) reachedSince(ctx context.Context, begun time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.version.begun.After(begun) {
		p.version.send(ctx, p.query)
	}
	return p.version.err == nil || review.HasStatus(p.version.err)
}

// serveHealth answers /livez, /healthz and /readyz. /livez and /healthz succeed whenever the
// process can answer. /readyz succeeds if clients should use this replica: the server is not
// shutting down, it can authenticate and authorize clients, and no resource delays readiness. If
// the upstream is down, the proxy still serves reads within the grace period but is not ready,
// because another replica may reach the upstream. The answer needs no authentication, so it
// contains no details.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	var report healthReport
	report.check("ping", true, "")
	if r.URL.Path == "/readyz" {
		s.reportReadiness(r.Context(), &report)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	name := strings.TrimPrefix(r.URL.Path, "/")
	_, verbose := request.QueryOf(r.URL).Lookup("verbose")
	switch {
	case report.failed:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(&report, "%s check failed\n", name)
	case !verbose:
		report.Reset()
		report.WriteString("ok")
	default:
		fmt.Fprintf(&report, "%s check passed\n", name)
	}
	_, _ = w.Write([]byte(report.String()))
}

type healthReport struct {
	strings.Builder
	failed bool
}

// check adds a line for a check. If the check failed, the line contains the reason why.
func (h *healthReport) check(name string, well bool, why string) {
	if well {
		h.pass(name, "ok")
		return
	}
	h.failed = true
	fmt.Fprintf(h, "[-]%s failed: %s\n", name, why)
}

// pass adds a line for a check that passed. how is the state to report, such as "ok".
func (h *healthReport) pass(name, how string) { fmt.Fprintf(h, "[+]%s %s\n", name, how) }

func (s *Server) reportReadiness(ctx context.Context, report *healthReport) {
	report.check("shutdown", shutdownPhase(s.shutdownPhase.Load()) == phaseRunning, "the proxy is shutting down")
	upstream, identity := s.health.check(ctx)
	report.check("upstream", upstream == nil, "the upstream API server does not respond")
	report.check("identity", identity == nil, "the upstream API server does not answer reviews of callers")
	report.check("authentication", s.authn.Ready(time.Now()), "the CAs of callers have not been read yet")
	for _, res := range s.mirror.Readiness(upstream == nil && identity == nil) {
		if name := "resource/" + res.Name; res.Delays {
			report.check(name, false, res.How)
		} else {
			report.pass(name, res.How)
		}
	}
}

// Bounds for Options.HealthListen. Each connection serves one request, in plain HTTP.
const (
	maxProbeConnections = 64
	maxProbeHead        = 8 << 10
	probeHeadTime       = 5 * time.Second
)

// startProbes starts to serve Options.HealthListen, until Close. Health checks on the main address
// compete with all clients for CPU time and connections. On the address of HealthListen, the
// kubelet also does not need TLS. The caller holds s.mu.
func (s *Server) startProbes() error {
	if s.opts.HealthListen == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.opts.HealthListen)
	if err != nil {
		return fmt.Errorf("proxy: health checks: %w", err)
	}
	bounded := conn.NewListener(l, maxProbeConnections, 0, conn.NewHeads())
	s.probes = &http.Server{
		Addr: l.Addr().String(), Handler: http.HandlerFunc(s.serveProbe),
		ReadHeaderTimeout: probeHeadTime, ReadTimeout: probeHeadTime, WriteTimeout: conn.UnreadTime, MaxHeaderBytes: maxProbeHead,
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
	bounded.Bind(s.probes)
	s.probes.SetKeepAlivesEnabled(false)
	s.running.Go(func() {
		if err := s.probes.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Log.Error("health checks are not served", "err", err)
		}
	})
	return nil
}

func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
	if !isHealthCheck(r) {
		http.NotFound(w, r)
		return
	}
	s.serveHealth(w, r)
}

func isHealthCheck(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
}

// HealthURL returns the address of health checks, for example http://127.0.0.1:8081. It returns the
// empty string before Start, and if Options.HealthListen is not set.
func (s *Server) HealthURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probes == nil {
		return ""
	}
	return "http://" + s.probes.Addr
}
