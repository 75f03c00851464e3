package mirror

import (
	"net/http"
	"slices"
	"sync/atomic"
)

// maxWarnings bounds the warnings of one response that the proxy stores.
const maxWarnings = 8

// warnings contains the warnings of the upstream's last response to the session's LIST or WATCH.
// Most warnings are about deprecated versions. The proxy adds them to its own responses. The zero
// value is empty. warnings is safe for concurrent use.
type warnings struct{ values atomic.Pointer[[]string] }

// wrap returns a RoundTripper that records the warnings of successful responses.
func (w *warnings) wrap(next http.RoundTripper) http.RoundTripper { return &warningTransport{next, w} }

type warningTransport struct {
	http.RoundTripper
	warnings *warnings
}

func (t *warningTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK {
		t.warnings.set(resp.Header.Values("Warning"))
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. Kubernetes libraries use it to close idle
// connections.
func (t *warningTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (w *warnings) set(values []string) {
	values = slices.Clone(values[:min(len(values), maxWarnings)])
	w.values.Store(&values)
}

func (w *warnings) add(h http.Header) {
	if values := w.values.Load(); values != nil {
		for _, text := range *values {
			h.Add("Warning", text)
		}
	}
}
