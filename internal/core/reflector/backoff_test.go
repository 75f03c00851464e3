package reflector

import (
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestBackoffAttempt is how long a reflector waits, by what failed, how often, and at what.
func TestBackoffAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		sentinel    error
		request     request
		answered    bool
		forcedLists int
		size        int64
		want        map[int]time.Duration // by attempt
	}{
		"a server that does not like it": {ErrRejected, reqWatch, false, 0, 0, map[int]time.Duration{
			0: 600 * time.Millisecond, 1: 600 * time.Millisecond, 2: 1200 * time.Millisecond, 3: 2400 * time.Millisecond, 7: 22500 * time.Millisecond}},
		"a server that fails at once":        {ErrServer, reqList, false, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a server that fails after a second": {ErrServer, reqList, false, 0, 0, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"no server": {ErrUnreachable, reqWatch, false, 1, 0, map[int]time.Duration{
			0: 600 * time.Millisecond, 1: 600 * time.Millisecond, 2: 1200 * time.Millisecond, 3: 1200 * time.Millisecond,
			maxCheapFailures + 2: 1200 * time.Millisecond, maxCheapFailures + 3: 2400 * time.Millisecond, maxCheapFailures + 7: 22500 * time.Millisecond}},
		"a watch that breaks off":         {ErrUnreachable, reqWatch, true, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a list without an answer":        {ErrUnreachable, reqList, false, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a list that breaks off":          {ErrUnreachable, reqList, true, 0, 0, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"small lists for want of a watch": {ErrUnreachable, reqWatch, false, maxCheapLists + 2, 1600, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"larger ones":                     {ErrUnreachable, reqWatch, false, 3, 1601, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"many of them":                    {ErrUnreachable, reqWatch, false, maxCheapLists + 3, 1600, map[int]time.Duration{7: 22500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{}.withDefaults()
			for attempt, want := range test.want {
				m := machine{state: newState(&cfg, "1"), in: input{answered: test.answered, jitter: 0.5}}
				if strings.Contains(name, "after a second") {
					m.in.after = time.Second
				}
				m.request, m.attempt, m.forcedLists, m.size = test.request, attempt, test.forcedLists, test.size
				m.sleep(reqWatch, test.sentinel)
				check.Equal(t, m.actions[0].(wait).d, want, "attempt %d waits", attempt)
			}
		})
	}
}

// TestSizeOf is what objects count for in a list's size.
func TestSizeOf(t *testing.T) {
	for bytes, want := range map[int]int64{0: 1, 2 << 10: 1, 8 << 10: 2, 1 << 20: 129} {
		check.Equal(t, sizeOf(source.Object{Raw: make([]byte, bytes)}), want, "%d bytes count for objects", bytes)
	}
}
