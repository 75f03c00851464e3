package debug

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"time"
)

//go:embed page.html
var page []byte

const (
	// mostStreams bounds the pages that are open at once. Each has a goroutine, that of its request,
	// and a report a second.
	mostStreams = 32
	// streamEvery is how often an open page is told of the state.
	streamEvery = time.Second
)

// Handler returns the page at / of where it is mounted, everything that it shows as JSON at
// /informers, and the same again and again as server-sent events at /stream, which the page reads.
// It takes GET and HEAD alone. Nothing is collected while nobody asks. At most 32 streams are served
// at once, others get 503. A stream ends with its request; http.Server.Shutdown waits for it, so
// give the server a BaseContext that ends before. The handler is safe for concurrent use. The JSON's
// fields may change with a minor version.
func Handler() http.Handler {
	streams := make(chan struct{}, mostStreams)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		header(w, "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /informers", func(w http.ResponseWriter, _ *http.Request) {
		header(w, "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(newReport(time.Now()))
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // net/http drops the body, so no write would ever fail
			header(w, "text/event-stream")
			return
		}
		select {
		case streams <- struct{}{}:
			defer func() { <-streams }()
		default:
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		header(w, "text/event-stream")
		stream(r.Context(), w)
	})
	return mux
}

// header sets what all answers have in common.
func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// stream writes a report as an event at once, and every streamEvery, until the request ends or the
// client takes no more.
func stream(ctx context.Context, w http.ResponseWriter) {
	control := http.NewResponseController(w)
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		data, err := json.Marshal(newReport(time.Now()))
		if err != nil {
			return
		}
		// A server's own WriteTimeout would end the stream, and a client that takes nothing would hold
		// it. Not every ResponseWriter has deadlines.
		_ = control.SetWriteDeadline(time.Now().Add(10 * streamEvery))
		if _, err := w.Write(append(append([]byte("data: "), data...), "\n\n"...)); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
