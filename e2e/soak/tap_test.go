package soak

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// tap remembers the versions of each key that servers sent to a subject, by request, for a log.
// Safe for concurrent use.
type tap struct {
	begun time.Time

	mu        sync.Mutex
	keys      map[string][]string
	bookmarks []string
}

const (
	// maxTapped bounds what is remembered of a key.
	maxTapped = 40
	// maxBookmarks bounds the bookmarks that are remembered.
	maxBookmarks = 40
)

func newTap(begun time.Time) *tap { return &tap{begun: begun, keys: map[string][]string{}} }

// listen returns a body that reads on as resp's does, and remembers what it brings. A goroutine
// reads along until the body ends or is closed.
func (t *tap) listen(number int64, resp *http.Response, watch bool) io.ReadCloser {
	pr, pw := io.Pipe()
	enc := wire.JSON
	if strings.Contains(resp.Header.Get("Content-Type"), "protobuf") {
		enc = wire.Protobuf
	}
	encoding := resp.Header.Get("Content-Encoding")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _, _ = io.Copy(io.Discard, pr) }() // the unread rest
		body, err := wire.NewBody(pr, encoding)
		switch {
		case err != nil:
		case watch:
			t.watch(number, body, enc)
		default:
			t.list(number, body, enc)
		}
	}()
	return &tapped{resp.Body, pw, done}
}

// tapped is a body that is read along.
type tapped struct {
	io.ReadCloser
	along *io.PipeWriter
	done  <-chan struct{}
}

func (b *tapped) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		_, _ = b.along.Write(p[:n])
	}
	if err != nil {
		_ = b.along.CloseWithError(err)
	}
	return n, err
}

func (b *tapped) Close() error {
	_ = b.along.CloseWithError(io.EOF)
	<-b.done
	return b.ReadCloser.Close()
}

func (t *tap) watch(number int64, body io.Reader, enc wire.Encoding) {
	events := wire.NewWatchReader(body, enc, wire.Limits{})
	for newest := uint64(0); ; {
		event, err := events.Next()
		if err != nil {
			return
		}
		var m wire.Meta
		if event.Type == wire.Error || wire.ReadMeta(enc, event.Object, &m) != nil {
			continue
		}
		t.note(fmt.Sprintf("#%d %v", number, event.Type), &m, newest)
		newest = max(newest, parseVersion(string(m.ResourceVersion)))
	}
}

func (t *tap) list(number int64, body io.Reader, enc wire.Encoding) {
	for list := wire.NewListReader(body, enc, wire.Limits{}); ; {
		object, err := list.Next()
		if err != nil {
			return
		}
		var m wire.Meta
		if wire.ReadMeta(enc, object, &m) == nil {
			t.note(fmt.Sprintf("#%d listed", number), &m, 0)
		}
	}
}

// note remembers one object of an answer, before which newest was the newest version in that.
func (t *tap) note(how string, m *wire.Meta, newest uint64) {
	line := fmt.Sprintf("%8.3fs  %s %s (uid %.4s), after %d", time.Since(t.begun).Seconds(), how, m.ResourceVersion, m.UID, newest)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(m.Name) == 0 {
		t.bookmarks = append(t.bookmarks, line)
		t.bookmarks = t.bookmarks[max(0, len(t.bookmarks)-maxBookmarks):]
		return
	}
	key := string(wire.AppendKey(nil, m))
	lines := append(t.keys[key], line)
	t.keys[key] = lines[max(0, len(lines)-maxTapped):]
}

// told returns the remembered versions of a key, and the bookmarks.
func (t *tap) told(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "it was told\n    " + strings.Join(t.keys[key], "\n    ") + "\n  and the bookmarks\n    " + strings.Join(t.bookmarks, "\n    ")
}
