package reflector

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testgc"
	"github.com/weirproject/weir/internal/wire"
)

// TestIdleWatchPinsNoBuffer: while a watch waits, nothing refers to the buffer that its last object
// was in. A buffer has 64 KiB, or what one object takes.
func TestIdleWatchPinsNoBuffer(t *testing.T) {
	const size = 2 << 20
	// The store holds nothing of what is not wanted.
	notLarge := func(m *wire.Meta) bool { return string(m.Name) != "large" }
	withHarness(t, Config{Mode: List, Keep: notLarge}, func(h *harness) {
		h.run(h.list("10"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.Write(h.event("+small@11"))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
			rw.Write(h.event("+large@12=" + strings.Repeat("x", size)))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		h.wantCurrent("11")
		before := testgc.Live()
		h.advance(2 * time.Second)
		h.wantCurrent("12")
		if held := testgc.Live(); held > before+size/2 {
			t.Errorf("%d bytes are held while the watch waits, and %d before its last object came", held, before)
		}
	})
}
