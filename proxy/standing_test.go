package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weirproject/weir/apiserver"
)

// logBuffer is a log that a test reads while others write. It is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines with a text.
func (b *logBuffer) lines(with string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, with) {
			out = append(out, line)
		}
	}
	return out
}

// TestStandingIsLogged: when the upstream fails, the log says so once for each resource, without
// any request of a client, and once that the resource is current again.
func TestStandingIsLogged(t *testing.T) {
	log := &logBuffer{}
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "nodes"}, Log: slog.New(slog.NewTextHandler(log, nil))})
	const behind, again = "a resource is behind its upstream", "a resource is current again"
	if n := len(log.lines(behind)) + len(log.lines(again)); n != 0 {
		t.Errorf("%d lines before", n)
	}
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
