package debug

import (
	"encoding/json"
	"net/http"
	"time"
)

// events writes server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newEvents starts an answer of events. It answers a HEAD request and reports false: net/http drops
// its body, so no write would ever fail.
func newEvents(w http.ResponseWriter, r *http.Request) (*events, bool) {
	header(w, "text/event-stream")
	return &events{w, http.NewResponseController(w)}, r.Method != http.MethodHead
}

// send sends a value as JSON. It returns an error if the client does not accept more.
func (e *events) send(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return e.write(append(append([]byte("data: "), data...), "\n\n"...))
}

// alive sends a comment, which clients ignore.
func (e *events) alive() error { return e.write([]byte(":\n\n")) }

func (e *events) write(text []byte) error {
	// A server's own WriteTimeout would end the stream, and without a deadline a client that does not
	// read would block it. Not every ResponseWriter supports deadlines.
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return e.control.Flush()
}

// serveStream sends a report immediately and every streamEvery, until the request ends or the
// client does not accept more.
func serveStream(w http.ResponseWriter, r *http.Request) {
	to, ok := newEvents(w, r)
	if !ok {
		return
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for to.send(newReport(time.Now())) == nil {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
