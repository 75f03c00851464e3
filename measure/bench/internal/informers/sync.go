package informers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var syncVerb = Verb{
	Name: "sync", Runs: 3, modes: bothModes, measure: measureSync,
	Takes: []string{TakesUnstructured, TakesTransform, TakesUnwrapped, TakesHandlers},
	Short: "The first sync of an informer of pods: time, CPU and memory",
	figures: []figures.Figure{
		figures.Lower("syncSeconds", "time to sync", figures.Seconds),
		figures.Lower("cpuSeconds", "CPU to sync", figures.Seconds),
		figures.Lower("peakRSSBytes", "peak RSS", figures.Bytes),
		figures.Lower("heapBytes", "heap after GC, synced and idle", figures.Bytes),
		figures.Lower("heapObjects", "heap objects", figures.Count),
		figures.Lower("allocBytes", "allocated", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
		figures.New("events", "events handled", figures.Count),
		figures.New("requests", "requests made", figures.Count),
		figures.New("heapLeftBytes", "heap left after stop", figures.Bytes),
		figures.New("goroutinesLeft", "goroutines left after stop", figures.Count),
	},
}

// measureSync measures the first sync of an informer whose handlers receive keys, and the memory
// that the informer then uses.
func measureSync(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	s.sync(ctx)
	used := s.since(s.start)
	f := Figures{
		"syncSeconds":  used.elapsed.Seconds(),
		"cpuSeconds":   used.cpu.Seconds(),
		"peakRSSBytes": float64(process.PeakRSS()),
		"allocBytes":   used.alloc,
		"events":       used.events,
		"objects":      float64(s.len()),
		"requests":     float64(s.meter.requests.Load()),
	}
	h := settledHeap()
	f["heapBytes"], f["heapObjects"] = float64(h.bytes), float64(h.objects)
	s.aftermath(ctx, f)
	return f
}

// floor reads the LISTs that an informer of each kind would read, one after the other, and discards
// them. No informer can be faster.
func floor(ctx context.Context, cfg *rest.Config, s *spec) Figures {
	client := figures.Must(rest.HTTPClientFor(cfg))
	kinds := s.kinds()
	start := now(0)
	var wireBytes int64
	for _, gvr := range kinds {
		wireBytes += readList(ctx, client, cfg, s, gvr)
	}
	end := now(0)
	return Figures{
		"syncSeconds":  end.at.Sub(start.at).Seconds(),
		"cpuSeconds":   (end.cpu - start.cpu).Seconds(),
		"peakRSSBytes": float64(process.PeakRSS()),
		"wireBytes":    float64(wireBytes),
	}
}

// readList reads one LIST in the encoding that an informer requests, and returns the number of
// bytes.
func readList(ctx context.Context, client *http.Client, cfg *rest.Config, s *spec, gvr schema.GroupVersionResource) int64 {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	figures.Check(err)
	root := "/apis/" + gvr.Group
	if gvr.Group == "" {
		root = "/api"
	}
	base = base.JoinPath(root, gvr.Version, gvr.Resource)
	base.RawQuery = "resourceVersion=0"
	q := figures.Must(http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil))
	q.Header.Set("Accept", runtime.ContentTypeProtobuf)
	if _, ok := typedKinds[gvr]; !ok || s.Unstructured {
		q.Header.Set("Accept", runtime.ContentTypeJSON)
	}
	q.Header.Set("Accept-Encoding", "gzip") // so that the client does not decompress
	a := figures.Must(client.Do(q))
	defer a.Body.Close()
	n := figures.Must(io.Copy(io.Discard, a.Body))
	figures.Require(a.StatusCode == http.StatusOK, fmt.Errorf("LIST %s: %s", base.Path, a.Status))
	figures.Require(strings.Contains(a.Header.Get("Content-Type"), q.Header.Get("Accept")), fmt.Errorf("LIST %s: asked for %s, got %s", base.Path, q.Header.Get("Accept"), a.Header.Get("Content-Type")))
	return n
}
