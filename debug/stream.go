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

// newEvents begins an answer of events. It reports false for a HEAD request, which is answered
// then: net/http drops its body, so no write would ever fail.
func newEvents(w http.ResponseWriter, r *http.Request) (*events, bool) {
	header(w, "text/event-stream")
	return &events{w, http.NewResponseController(w)}, r.Method != http.MethodHead
}

// send sends a value as JSON. An error says that the client takes no more.
func (e *events) send(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return e.write(append(append([]byte("data: "), data...), "\n\n"...))
}

// alive sends what clients ignore.
func (e *events) alive() error { return e.write([]byte(":\n\n")) }

func (e *events) write(text []byte) error {
	// A server's own WriteTimeout would end the stream, and a client that takes nothing would hold
	// it. Not every ResponseWriter has deadlines.
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return e.control.Flush()
}

// serveStream sends a report at once, and every streamEvery, until the request ends or the client
// takes no more.
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
