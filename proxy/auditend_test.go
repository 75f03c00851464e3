package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/weirproject/weir/apiserver"
)

// brokenWriter calls onWrite for each write, with the number of the write, which starts at 0.
type brokenWriter struct {
	*httptest.ResponseRecorder
	writes  int
	onWrite func(n int) error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if err := w.onWrite(w.writes); err != nil {
		return 0, err
	}
	w.writes++
	return w.ResponseRecorder.Write(p)
}

// TestAuditInterruptedResponses checks how the audit log records answers that do not end normally.
// A panic, or a LIST whose request ends early, is recorded as Panic with code 500. An answer whose
// connection breaks is recorded as ResponseComplete with code 200 and the message "Connection
// closed early". A panic of the proxy itself is also logged as an error.
func TestAuditInterruptedResponses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var log logBuffer
	_, tp := startReady(t, apiserver.Options{Pods: 500}, Options{
		Resources: []string{"pods"}, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		Audit:          Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path},
		Authentication: Authentication{TokenTTL: deadline * 100, AllowTTL: deadline * 100, DenyTTL: deadline},
	})
	const list, watch = "/api/v1/pods?resourceVersion=0", "/api/v1/pods?watch=true&resourceVersion=0"
	for _, at := range []string{list, watch + "&timeoutSeconds=1"} {
		tp.get("jane", at) // the proxy then caches jane's reviews
	}
	served := tp.server.served
	nothing := func(int) error { return nil }
	for _, test := range []struct {
		id, path string
		gone     bool // the client leaves before the proxy answers
		panics   bool // the proxy itself panics
		onWrite  func(cancel func(), n int) error
		stage    string
		code     int32
		message  string
	}{
		{id: "whole", path: list, stage: "ResponseComplete", code: 200},
		{id: "gone before", path: list, gone: true, stage: "Panic", code: 500, message: "cut off"},
		{id: "gone within", path: list, onWrite: func(cancel func(), _ int) error { cancel(); return nil }, stage: "Panic", code: 500, message: "cut off"},
		{id: "connection broken", path: list, onWrite: func(_ func(), n int) error {
			if n > 0 {
				return http.ErrHandlerTimeout
			}
			return nil
		}, stage: "ResponseComplete", code: 200, message: "Connection closed early"},
		{id: "a watch whose client leaves", path: watch, onWrite: func(cancel func(), _ int) error { cancel(); return nil }, stage: "ResponseComplete", code: 200},
		{id: "panic", path: list, panics: true, stage: "Panic", code: 500, message: "panicked: runtime error"},
		{id: "panic of a watch", path: watch, panics: true, stage: "Panic", code: 500, message: "panicked: runtime error"},
	} {
		ctx, cancel := context.WithCancel(tp.ctx)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, test.path, nil)
		r.Header.Set("Authorization", "Bearer token-jane")
		r.Header.Set("Audit-ID", test.id)
		w := &brokenWriter{httptest.NewRecorder(), 0, nothing}
		if test.onWrite != nil {
			w.onWrite = func(n int) error { return test.onWrite(cancel, n) }
		}
		if test.gone {
			cancel()
		}
		if tp.server.served = served; test.panics {
			tp.server.served = nil
		}
		logged := len(log.String())
		why := recovered(func() { tp.server.ServeHTTP(w, r) })
		cancel()
		if (why != nil) != (test.stage == "Panic") || why != nil && why != http.ErrAbortHandler {
			t.Errorf("%s: it panics with %v", test.id, why)
		}
		all := auditOf(t, path)
		i := slices.IndexFunc(all, func(e auditv1.Event) bool { return string(e.AuditID) == test.id && string(e.Stage) == test.stage })
		if got := stages(all, test.id); i < 0 || got[len(got)-1] != auditinternal.Stage(test.stage) {
			t.Errorf("%s: recorded %v, want %s", test.id, got, test.stage)
			continue
		}
		if st := all[i].ResponseStatus; st.Code != test.code || !strings.Contains(st.Message, test.message) || test.message == "" && st.Message != "" ||
			strings.Contains(st.Message, "\n") {
			t.Errorf("%s: recorded %+v", test.id, st)
		}
		if text := log.String()[logged:]; strings.Contains(text, "panic") != test.panics || test.panics && !strings.Contains(text, "(*Server).answer") {
			t.Errorf("%s: logged %q", test.id, text)
		}
	}
	if _, page := tp.get("jane", "/metrics"); !strings.Contains(page, `apiserver_request_total{code="500"`) {
		t.Error("panics are not counted")
	}
}

// recovered returns the value with which f panics, or nil.
func recovered(f func()) (why any) {
	defer func() { why = recover() }()
	f()
	return nil
}

// TestAuditGrace checks the audit record of a read that the proxy allows because of an earlier
// review. The record must give the reason: the upstream does not respond.
func TestAuditGrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path}})
	tp.get("jane", "/api/v1/pods?resourceVersion=0", "Audit-ID", "before")
	u.setDown(true)
	tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0", "Audit-ID", "down")
	for _, e := range auditOf(t, path) {
		want := map[string]string{"before": "", "down": "the upstream does not respond, and its last response allowed the request"}[string(e.AuditID)]
		if got, ok := e.Annotations["authorization.k8s.io/reason"]; !ok || got != want {
			t.Errorf("%s: recorded %v", e.AuditID, e.Annotations)
		}
	}
}
