package debug

import (
	"embed"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/weirproject/weir/internal/localonly"
)

//go:embed page.html page.css page.js
var page embed.FS

const (
	// maxStreams bounds the pages that are open at once. Each has a goroutine, that of its
	// request, and a report a second.
	maxStreams = 32
	// maxHistories bounds how many objects are looked at at once. Each has a goroutine, that of
	// its request, and a cursor that reads all changes of the object's store.
	maxHistories = 8
	// streamEvery is how often an open page is told of the state.
	streamEvery = time.Second
	// writeTimeout bounds the wait for a client that takes nothing.
	writeTimeout = 10 * time.Second
)

// policy has the page ask its own server and nobody else, and run nothing but its own script.
const policy = "default-src 'none'; style-src 'self'; img-src data:; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Handler returns the page at / of where it is mounted, and what it shows as JSON:
//
//	/informers                                     everything
//	/stream                                        the same, as server-sent events, once a second
//	/history?informer=NAME&key=NAMESPACE/NAME      the changes of one object that the change log has still
//	/history?informer=NAME&key=…&for=30s           and those of the next 30 s; five minutes at most
//	/history/stream?informer=NAME&key=…            the same as server-sent events, without an end
//
// In a process with a proxy, proxy=URL&resource=deployments.apps is in the place of informer=NAME.
//
// It takes GET and HEAD alone. By a loopback address it answers requests whose Host is an IP
// address or localhost, and refuses others with 403: they may be of a web page whose name leads
// there. Nothing is collected, and no object is read, while nobody asks. At most 32 streams, and 8
// histories, are served at once; others get 503. They end with their requests, for which
// http.Server.Shutdown waits, so give the server a BaseContext that ends before. The handler is
// safe for concurrent use. The JSON's fields may change with a minor version.
func Handler() http.Handler {
	streams, histories := make(limit, maxStreams), make(limit, maxHistories)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { servePage(w, "page.html") })
	mux.HandleFunc("GET /page.css", func(w http.ResponseWriter, _ *http.Request) { servePage(w, "page.css") })
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) { servePage(w, "page.js") })
	mux.HandleFunc("GET /informers", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, newReport(time.Now())) })
	mux.HandleFunc("GET /stream", streams.bound(serveStream))
	mux.HandleFunc("GET /history", histories.bound(serveHistory))
	mux.HandleFunc("GET /history/stream", histories.bound(streamHistory))
	return localonly.Handler(mux)
}

// limit bounds how many requests are served at once.
type limit chan struct{}

func (l limit) bound(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case l <- struct{}{}:
			defer func() { <-l }()
			serve(w, r)
		default:
			http.Error(w, "too many of these are open", http.StatusServiceUnavailable)
		}
	}
}

// header sets what all answers have in common.
func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
}

func servePage(w http.ResponseWriter, name string) {
	text, err := page.ReadFile(name)
	if err != nil { // it is embedded
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header(w, mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(text)
}

func writeJSON(w http.ResponseWriter, value any) {
	// Not every ResponseWriter has deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	header(w, "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(value)
}
