package proxy

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// failing is an audit backend whose writes fail until works is set.
type failing struct {
	audit.Backend
	works atomic.Bool
}

func (f *failing) ProcessEvents(events ...*auditinternal.Event) bool {
	return f.works.Load() && f.Backend.ProcessEvents(events...)
}

// TestAuditFails checks that the proxy does not answer requests from the cache while it cannot
// record them.
func TestAuditFails(t *testing.T) {
	for what, policy := range map[string]string{
		"by all stages":      auditPolicy,
		"by the end of each": strings.Replace(auditPolicy, "rules:", "omitStages: [RequestReceived]\nrules:", 1),
	} {
		t.Run(what, func(t *testing.T) {
			u, tp := start(t, apiserver.Options{Pods: 3}, Options{
				Resources: []string{"pods"}, Audit: Audit{PolicyFile: writePolicy(t, policy), LogPath: filepath.Join(t.TempDir(), "log")},
			})
			log := &failing{Backend: tp.server.auditor.Sink.Backend}
			tp.server.auditor.Sink.Backend = log
			tp.ready()
			const path = "/api/v1/pods?resourceVersion=0"
			// If the policy omits the stage RequestReceived, the first event of this request is its end. The
			// proxy answers the request, and cannot record that event.
			tp.get("jane", path)
			forwarded, before := 0, tp.server.forwardedFor[forUnaudited].Load()
			for range 3 { // the proxy tries once a second whether it can record again
				u.forwarded("")
				tp.want(http.StatusOK, "jane", path)
				forwarded += len(u.forwarded(path))
			}
			if forwarded == 0 {
				t.Error("all are answered here")
			}
			check.Equal(t, tp.server.forwardedFor[forUnaudited].Load()-before, uint64(forwarded), "requests forwarded because they could not be recorded")
			codes := map[int]bool{}
			for range 3 {
				code, _ := tp.get("jane", "/metrics")
				codes[code] = true
			}
			if !codes[http.StatusInternalServerError] {
				t.Errorf("the metrics: %v", codes)
			}
			log.works.Store(true)
			tp.until("it is answered here again", func() bool {
				u.forwarded("")
				tp.get("jane", path)
				return len(u.forwarded(path)) == 0
			})
			if _, body := tp.get("jane", "/metrics"); !regexp.MustCompile(`(?m)^apiserver_audit_requests_rejected_total [1-9]`).MatchString(body) ||
				!regexp.MustCompile(`(?m)^apiserver_audit_event_total [1-9]`).MatchString(body) {
				t.Error("the metrics do not tell of it")
			}
		})
	}
}
