// Package debug serves a page that shows the informers of a running process: their contents, how
// current their contents are, their errors, and how far their handlers lag.
//
//	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
//
// The page shows the informers of package weir, the drop-ins of package clientgo, and the informers
// under controller-runtime's caches. If a proxy runs in the process, the page shows the proxy too.
//
// If the user enters the key of an object, the page shows the object's changes. The page hides the
// data and annotations of Secrets, and of objects of unknown kind. It also hides the values of
// environment variables, and annotations that are JSON objects. It shows selectors, errors, and the
// key of the object that a handler is handling. So mount it only where operators alone can reach
// it: behind authentication, or on a loopback address. On a loopback address, the handler answers
// only requests for an IP address or localhost. See docs/howto/debug.md.
package debug

import (
	"embed"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/serve/secure"
)

//go:embed page.html page.css page.js
var page embed.FS

const (
	// maxStreams limits the number of open pages. Each page uses the goroutine of its request, and
	// receives one report per second.
	maxStreams = 32
	// maxHistories limits the number of open histories, that is, requests for the changes of one
	// object. Each history uses the goroutine of its request, and a cursor that reads all changes of
	// the object's store.
	maxHistories = 8
	// maxOpen limits the IDs in a request for a stream. The page opens at most 20 rows.
	maxOpen = 100
	// streamEvery is the interval at which an open page receives a report.
	streamEvery = time.Second
	// writeTimeout limits the wait for a client that does not read.
	writeTimeout = 10 * time.Second
)

// policy is the page's Content-Security-Policy. It permits the page to send requests only to the
// server of the page, and to run only the script of that server.
const policy = "default-src 'none'; style-src 'self'; img-src data:; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Handler returns a handler that serves the page at / of its mount point, and the page's data as
// JSON:
//
//	/informers                                     everything
//	/stream?open=ID&open=…                         once a second, as server-sent events: a summary of
//	                                               everything, and the details of what has these
//	                                               IDs, at most 100
//	/history?informer=NAME&key=NAMESPACE/NAME      the changes of one object in the change log
//	/history?informer=NAME&key=…&for=30s           also changes of the next 30 s; at most 5 minutes
//	/history/stream?informer=NAME&key=…            the same as server-sent events, without an end
//
// In a process with a proxy, proxy=URL&resource=deployments.apps replaces informer=NAME.
//
// The handler accepts only GET and HEAD. On a loopback address, it answers only requests whose Host
// is an IP address or localhost. It refuses other requests with 403, because they may come from a
// malicious web page whose host name resolves to the loopback address. It serves at most 32 streams
// and 8 histories; further requests receive 503.
//
// As long as the handler is in memory, it records four figures of each informer every ten seconds,
// for the charts of the last half hour. This costs 2 KB per informer and no goroutine. The handler
// reads no object unless a request asks for the history of an object. It records the stacks of
// goroutines, at most every ten seconds, if a request asks for the details of an informer whose
// handler has not returned for 30 s.
//
// The page shows the links, for example to profiles and metrics that the same server serves.
//
// A stream or history ends with its request. http.Server.Shutdown waits for requests, so give the
// server a BaseContext, and end that context before you call Shutdown. The handler is safe for
// concurrent use. The JSON's fields may change in a minor version.
func Handler(links ...Link) http.Handler {
	streams, histories := make(limit, maxStreams), make(limit, maxHistories)
	past := newTrends()
	reportNow := func(open func(id string) bool) report {
		r := past.report(time.Now(), open)
		r.Links = links
		for i := range r.Proxies {
			r.Proxies[i].Series = past.charts(r.Proxies[i].ID, proxySeries)
		}
		return r
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", servePage("page.html"))
	mux.HandleFunc("GET /page.css", servePage("page.css"))
	mux.HandleFunc("GET /page.js", servePage("page.js"))
	mux.HandleFunc("GET /informers", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, reportNow(func(string) bool { return true }))
	})
	mux.HandleFunc("GET /stream", streams.bound(func(w http.ResponseWriter, r *http.Request) { serveStream(w, r, reportNow) }))
	mux.HandleFunc("GET /history", histories.bound(serveHistory))
	mux.HandleFunc("GET /history/stream", histories.bound(streamHistory))
	return secure.LocalOnly(mux)
}

// Link is a link that the page shows. URL may be relative to the page's own URL.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type limit chan struct{}

func (l limit) bound(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case l <- struct{}{}:
			defer func() { <-l }()
			serve(w, r)
		default:
			http.Error(w, "too many of these pages are open", http.StatusServiceUnavailable)
		}
	}
}

// header sets the headers that all responses share.
func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
}

func servePage(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header(w, mime.TypeByExtension(path.Ext(name)))
		http.ServeFileFS(w, r, page, name)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	// Not every ResponseWriter supports deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	header(w, "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(value)
}

type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newEvents starts a response of server-sent events. It returns false for a HEAD request. The
// caller must then send nothing: net/http drops the body of such a response, so no write would fail
// and the stream would never end.
func newEvents(w http.ResponseWriter, r *http.Request) (*events, bool) {
	header(w, "text/event-stream")
	return &events{w, http.NewResponseController(w)}, r.Method != http.MethodHead
}

// send sends value as JSON. It returns an error if a write to the client fails.
func (e *events) send(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return e.write(append(append([]byte("data: "), data...), "\n\n"...))
}

// alive sends a comment, which clients ignore, to detect a client that has disconnected.
func (e *events) alive() error { return e.write([]byte(":\n\n")) }

func (e *events) write(text []byte) error {
	// The deadline overrides the server's WriteTimeout, which would end the stream. It also limits how
	// long a client that does not read can block the stream. Not every ResponseWriter supports
	// deadlines.
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return e.control.Flush()
}

// serveStream sends a report immediately and then every streamEvery, until the request ends or a
// write fails.
func serveStream(w http.ResponseWriter, r *http.Request, reportNow func(open func(id string) bool) report) {
	to, ok := newEvents(w, r)
	if !ok {
		return
	}
	open := r.URL.Query()["open"]
	open = open[:min(len(open), maxOpen)]
	isOpen := func(id string) bool { return slices.Contains(open, id) }
	tick := time.Tick(streamEvery)
	for to.send(reportNow(isOpen)) == nil {
		select {
		case <-tick:
		case <-r.Context().Done():
			return
		}
	}
}
