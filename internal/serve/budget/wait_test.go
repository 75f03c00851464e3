package budget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestWait checks that bytes that do not fit are charged when enough bytes are removed. Waiting
// calls are served in their order and leave their spare bytes free. A call whose context ends
// before enough bytes are removed charges nothing.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		first, err := b.Take(known, "a", 40)
		check.NoError(t, err)
		wait := func(share string, n, spare int64) (*Charge, <-chan error) {
			c, got := b.NewCharge(known, share), make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				got <- c.Wait(ctx, n, spare)
			}()
			synctest.Wait()
			return c, got
		}
		fits, got := wait("a", 5, 5)
		check.NoError(t, <-got)
		second, gotSecond := wait("a", 20, 10)
		third, gotThird := wait("a", 20, 10)
		check.Equal(t, b.ShareBytes(known, "a"), 45, "bytes before any is removed")
		first.Add(-25)
		if err := <-gotSecond; err != nil || second.Bytes() != 20 {
			t.Errorf("%d bytes, %v", second.Bytes(), err)
		}
		if err := <-gotThird; err == nil || third.Bytes() != 0 {
			t.Errorf("%d bytes that do not fit, %v", third.Bytes(), err)
		}
		fits.Release()
		first.Release()
		second.Release()
		if u := b.Usage()[known]; u.Used != 0 || u.Refused != 1 || len(b.waiting) != 0 {
			t.Errorf("left: %+v, %d wait", u, len(b.waiting))
		}
	})
}
