package proxy

import (
	"net/http"
	"slices"
	"sync"
)

// maxWarnings bounds what is kept of one answer.
const maxWarnings = 8

// warnings are those that the upstream answers a LIST or WATCH of a whole resource with: that the
// version is deprecated, most of all. Who is answered from here is warned as well. The zero value
// is none. Safe for concurrent use.
type warnings struct {
	mu     sync.Mutex
	values []string // not changed once it is here
}

// wrap takes the warnings of each answer that is one.
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

// WrappedRoundTripper lets others find the transport behind this one.
func (t *warningTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (w *warnings) set(values []string) {
	values = slices.Clone(values[:min(len(values), maxWarnings)])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values = values
}

// add puts them into the header of an answer.
func (w *warnings) add(h http.Header) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.values {
		h.Add("Warning", text)
	}
}
