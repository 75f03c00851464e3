package doctor

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// TestDemo checks that the embedded log is the log of testdata/demo.txt. With -rewrite it writes
// the log.
func TestDemo(t *testing.T) {
	text, err := os.ReadFile("testdata/demo.txt")
	check.NoError(t, err)
	w := newWorld(1)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			w.play(t, line)
		}
	}
	log := w.log()
	if flag.Lookup("rewrite").Value.String() == "true" {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		check.NoError(t, err)
		_, err = z.Write(log)
		check.NoError(t, err)
		check.NoError(t, z.Close())
		check.NoError(t, os.WriteFile("demo.log.gz", b.Bytes(), 0o644))
		demoLog = b.Bytes()
	}
	packed, objects := Demo()
	z, err := gzip.NewReader(packed)
	check.NoError(t, err)
	got, err := io.ReadAll(z)
	check.NoError(t, err)
	if !bytes.Equal(got, log) {
		t.Fatal("demo.log.gz is not the log of testdata/demo.txt; go test -rewrite writes it")
	}
	r := examine(t, Options{Objects: objects, Model: cost.Load()}, got)
	kinds := map[string]string{}
	for _, f := range r.Findings {
		kinds[f.Kind], _, _ = strings.Cut(f.Client.Agent, "/")
	}
	for kind, program := range map[string]string{
		FindingNodes: "node-agent", FindingRefused: "node-agent", FindingPolling: "secret-exporter",
		FindingResync: "tenant-operator", FindingWrites: "flag-reconciler",
	} {
		check.Equal(t, kinds[kind], program, kind)
		delete(kinds, kind)
	}
	check.Equal(t, len(kinds), 0, "other findings: %v", kinds)
	if h := r.Headline; h == nil || !strings.HasPrefix(h.Client.Agent, "node-agent/") || h.Work != WorkCPU || h.Finding != 0 || h.Objects != 15_000_000 {
		t.Errorf("%+v", h)
	}
}
