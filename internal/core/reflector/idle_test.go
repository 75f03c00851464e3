package reflector

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestIdleWatchPinsNoBuffer: while a watch waits, nothing refers to the buffer that its last object
// was in. A buffer has 64 KiB, or what one object takes.
func TestIdleWatchPinsNoBuffer(t *testing.T) {
	const size = int64(2 << 20)
	// The store holds nothing of what is not wanted.
	configs := []Config{{Mode: List, Keep: func(m *wire.Meta) bool { return string(m.Name) != "large" }}}
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		drop, err := wire.CompileDrop(enc, reflect.TypeFor[corev1.Pod](), "metadata.labels")
		check.NoError(t, err)
		configs = append(configs, Config{Mode: List, Drop: drop})
	}
	for _, cfg := range configs {
		idle(t, cfg, size)
	}
}

// idle watches for an object of a size, and expects that no buffer of that is held.
func idle(t *testing.T, cfg Config, size int64) {
	withHarness(t, cfg, func(h *harness) {
		if cfg.Drop != nil && cfg.Drop.Encoding() != h.enc {
			return
		}
		h.run(h.list("10"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.Write(h.event("+small@11"))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
			rw.Write(h.event("+large@12=" + strings.Repeat("x", int(size))))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		h.wantCurrent("11")
		stored := func() int64 { m := h.store.Memory(); return m.Packed + m.Log }
		before := testenv.LiveBytes() - stored()
		h.advance(2 * time.Second)
		h.wantCurrent("12")
		if held := testenv.LiveBytes() - stored(); held > before+size/2 {
			t.Errorf("%d bytes are held while the watch waits, and %d before its last object came", held, before)
		}
	})
}
