package proxy

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestStandingIsLogged checks that the proxy logs one line for each resource when the upstream
// fails, and one line when the resource is current again. No client needs to send a request for
// that.
func TestStandingIsLogged(t *testing.T) {
	log := &logBuffer{}
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "nodes"}, Log: slog.New(slog.NewTextHandler(log, nil))})
	const behind, again = "a resource is behind its upstream", "a resource is current again"
	check.Equal(t, len(log.lines(behind))+len(log.lines(again)), 0, "lines before")
	for round := 1; round <= 2; round++ {
		u.setDown(true)
		tp.until("both are behind", func() bool { return len(log.lines(behind)) == 2*round })
		tp.until("several attempts have failed", func() bool { return tp.resource("pods").State().Session.Reflector().Status().Attempts >= 3 })
		u.setDown(false)
		tp.until("both are current", func() bool { return len(log.lines(again)) == 2*round })
	}
	for _, text := range []string{behind, again} {
		for _, name := range []string{"pods", "nodes"} {
			if n := strings.Count(strings.Join(log.lines(text), ""), "resource="+name); n != 2 {
				t.Errorf("%q about %s: %d lines", text, name, n)
			}
		}
	}
}
