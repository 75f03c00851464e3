package reflector

import (
	"net/http"
	"testing"
	"time"
)

// after gives an answer later.
func after(d time.Duration, answer http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		answer(rw, r)
	}
}

// slowList is a list whose last tenths come later.
func (h *harness) slowList(d time.Duration, rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", contentType(h.enc))
		body := h.listBody(rv, pods...)
		begin := len(body) * 7 / 10
		rw.Write(body[:begin])
		rw.(http.Flusher).Flush()
		time.Sleep(d)
		rw.Write(body[begin:])
	}
}

// paced are events with a second between them.
func (h *harness) paced(events ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", watchContentType(h.enc))
		rw.WriteHeader(http.StatusOK)
		for _, e := range events {
			rw.Write(h.event(e))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}
		<-r.Context().Done()
	}
}

// TestCurrentAt: Status.CurrentAt is never newer than the store. A part of a list does not make the
// store newer, nor does an answer that shows that something is missing.
func TestCurrentAt(t *testing.T) {
	const never = -1
	type moment struct{ at, current time.Duration }
	pods := []string{"a@20", "b@19", "c@18", "d@17"}
	for name, tt := range map[string]struct {
		cfg    Config
		script func(h *harness) []http.HandlerFunc
		want   []moment
	}{
		"first list": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{after(time.Second, h.slowList(5*time.Second, "20", pods...)), h.events()}
		}, []moment{{2 * time.Second, never}, {10 * time.Second, 0}}},
		"relist": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), h.slowList(8*time.Second, "20", pods...), h.events()}
		}, []moment{{10 * time.Second, 0}, {20 * time.Second, 5 * time.Second}}},
		"relists that break off": {listed, func(h *harness) []http.HandlerFunc {
			broken := h.brokenList(7, "20", pods...)
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), broken, broken, broken}
		}, []moment{{10 * time.Second, 0}, {30 * time.Second, 0}}},
		"pages": {Config{Mode: Pages}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), h.list("20/more", "a@20"), after(5*time.Second, h.list("20", "b@19")), h.events()}
		}, []moment{{8 * time.Second, 0}, {20 * time.Second, 5 * time.Second}}},
		"initial events": {Config{Mode: WatchList}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.paced("+a@1", "+b@2", "end@10", "~a@11", "bookmark@12")}
		}, []moment{{1500 * time.Millisecond, never}, {2500 * time.Millisecond, 2 * time.Second}, {10 * time.Second, 4 * time.Second}}},
		"coalesced": {Config{Mode: WatchList}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.paced("+a@1", "end@10", "coalesced@11>15", "~a@13", "~a@16")}
		}, []moment{{3500 * time.Millisecond, time.Second}, {10 * time.Second, 4 * time.Second}}},
		"probe of a server that is ahead": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), h.list("15/more", "a@1"), h.events()}
		}, []moment{{100 * time.Second, 0}}},
		"probe that is refused": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), deny(http.StatusTooManyRequests, "1")}
		}, []moment{{100 * time.Second, 0}}},
		"bookmarks that repeat, of a server that is ahead": {listed, func(h *harness) []http.HandlerFunc {
			repeated := h.paced("~a@11", "bookmark@11", "bookmark@11", "bookmark@11")
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, repeated), h.list("15/more", "a@1")}
		}, []moment{{10 * time.Second, 5 * time.Second}, {100 * time.Second, 5 * time.Second}}},
		"bookmarks that repeat, and a probe that finds nothing new": {listed, func(h *harness) []http.HandlerFunc {
			repeated := h.paced("~a@11", "bookmark@11", "bookmark@11", "bookmark@11")
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, repeated), h.list("11/more", "a@1")}
		}, []moment{{10 * time.Second, 5 * time.Second}, {100 * time.Second, bookmarkPeriod + 5*time.Second}}},
		"list of a cache that may stand still": {Config{Mode: List, Consistency: Any}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("bookmark@12"))}
		}, []moment{{4 * time.Second, never}, {6 * time.Second, 5 * time.Second}}},
		"probe that finds nothing new": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), after(time.Second, h.list("10/more", "a@1"))}
		}, []moment{{100 * time.Second, bookmarkPeriod}}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, tt.cfg, func(h *harness) {
				h.run(tt.script(h)...)
				for _, m := range tt.want {
					h.advance(m.at - time.Since(h.began))
					s := h.r.Status()
					if got := s.CurrentAt.Sub(h.began); m.current == never && !s.CurrentAt.IsZero() || m.current != never && got != m.current || s.Heard.Before(s.CurrentAt) {
						t.Errorf("after %v: %v, want %v; heard at %v", m.at, got, m.current, s.Heard.Sub(h.began))
					}
				}
			})
		})
	}
}
