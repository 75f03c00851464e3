package servers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestForwarderIsNotMeasured checks the result of newGauge for a server on a port on which this
// process listens. If the server reports this process's start, the gauge reads /proc. Otherwise
// this process only forwards connections, and the gauge reads the server's metrics. Without /proc
// it always reads metrics.
func TestForwarderIsNotMeasured(t *testing.T) {
	started, noProc := pid(os.Getpid()).started()
	const format = startMetric + " %.2f\n"
	for _, test := range []struct {
		name, server, page string
		code               int
		measured           bool
	}{
		{"the server itself", nameAPIServer, fmt.Sprintf(format, started), 200, true},
		{"its clock was set meanwhile", nameAPIServer, fmt.Sprintf(format, started+0.9), 200, true},
		{"another is older", nameAPIServer, fmt.Sprintf(format, started-3), 200, false},
		{"another is younger", nameAPIServer, fmt.Sprintf(format, started+3), 200, false},
		{"it does not say", nameAPIServer, cpuMetric + " 7\n", 200, false},
		{"it may not say", nameAPIServer, "", 403, false},
		{"a child of ours", nameEmbedded, "", 404, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, test.page)
			}))
			defer server.Close()
			s, err := newTarget(t.Context(), test.server, &rest.Config{Host: server.URL})
			check.NoError(t, err)
			defer s.close()
			if _, measured := s.gauge.(procGauge); measured != (test.measured && noProc == nil) {
				t.Errorf("measured by %T", s.gauge)
			}
		})
	}
}
