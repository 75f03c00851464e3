package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirproject/weir/proxy/internal/conn"
)

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
