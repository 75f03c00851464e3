package informers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/rusage"
)

// measureSync measures the first sync of an informer with handlers that take keys, and what it then
// holds.
func measureSync(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handleAll(0); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	elapsed, cpu, alloc, events := r.since(r.start)
	f := Figures{
		"syncSeconds":  elapsed.Seconds(),
		"cpuSeconds":   cpu.Seconds(),
		"peakRSSBytes": float64(rusage.PeakRSS()),
		"allocBytes":   alloc,
		"events":       events,
		"objects":      float64(r.len()),
		"requests":     float64(r.meter.requests.Load()),
	}
	h := settledHeap()
	f["heapBytes"], f["heapObjects"] = float64(h.bytes), float64(h.objects)
	return f, r.aftermath(ctx, f)
}

// floor reads the same LIST to nowhere: what no informer can be faster than.
func floor(ctx context.Context, cfg *rest.Config, s *spec) (Figures, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	base = base.JoinPath(podsPath)
	base.RawQuery = "resourceVersion=0"
	start := now(0)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", runtime.ContentTypeProtobuf)
	if s.Unstructured {
		q.Header.Set("Accept", runtime.ContentTypeJSON)
	}
	q.Header.Set("Accept-Encoding", "gzip") // by hand: so that nobody decompresses
	a, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, a.Body)
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("LIST %s: %s", base.Path, a.Status)
	}
	if !strings.Contains(a.Header.Get("Content-Type"), q.Header.Get("Accept")) {
		return nil, fmt.Errorf("LIST %s: asked for %s, got %s", base.Path, q.Header.Get("Accept"), a.Header.Get("Content-Type"))
	}
	end := now(0)
	return Figures{
		"syncSeconds":  end.at.Sub(start.at).Seconds(),
		"cpuSeconds":   (end.cpu - start.cpu).Seconds(),
		"peakRSSBytes": float64(rusage.PeakRSS()),
		"wireBytes":    float64(n),
	}, nil
}
