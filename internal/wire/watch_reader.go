package wire

import "io"

// WatchReader cuts the body of a WATCH into events. It holds one read buffer and one event. If a
// whole event has arrived already, Next reads from the body at most once. It starts no goroutine
// and does not close the body. It is not safe for concurrent use.
type WatchReader struct {
	body watchBody
	err  error
}

// watchBody is what both encodings implement.
type watchBody interface {
	next() (Event, error)
	buffered() int
	offset() int64
}

// NewWatchReader returns a reader of the events in r. Any Content-Encoding must have been undone
// (see NewBody). It reads nothing yet.
func NewWatchReader(r io.Reader, enc Encoding, lim Limits) *WatchReader {
	if enc == Protobuf {
		return &WatchReader{body: &protoWatch{buf: buffer{r: r}, max: lim.maxObject()}}
	}
	return &WatchReader{body: &jsonWatch{jsonStream: jsonStream{buf: buffer{r: r}}, max: lim.maxObject()}}
}

// Next returns the next event and blocks until it is complete. Its Object is valid until the next
// call and must not be written to. If the body ends between two events, Next returns io.EOF; within
// an event, a *SyntaxError that wraps io.ErrUnexpectedEOF. An ERROR event is returned as an event;
// see DecodeStatus. A *ItemError is about the object of one event, and the next call returns the
// event behind it. Every other error is final.
func (w *WatchReader) Next() (Event, error) {
	if w.err != nil {
		return Event{}, w.err
	}
	e, err := w.body.next()
	if err != nil && final(err) {
		w.err = err
	}
	return e, err
}

// Buffered returns how many bytes were read but not yet returned, without whitespace in front. When
// it is above 0 the next event, or a part of it, is here, so Next will likely not wait.
func (w *WatchReader) Buffered() int { return w.body.buffered() }

// Offset returns how many bytes of the body have been consumed, up to the end of the event last
// returned.
func (w *WatchReader) Offset() int64 { return w.body.offset() }
