package reflector

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/store"
	"github.com/weirproject/weir/wire"
)

// TestSpare: events take their time while a handler is behind and goes on, and only then, and no longer than the reflector runs.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New(store.Config{Encoding: wire.Protobuf})
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		d := &driver{r: &Reflector{w: s.Writer(store.Scope{})}, ctx: ctx}
		took := func() time.Duration {
			begin := time.Now()
			d.spare(maxBatch)
			return time.Since(begin)
		}
		took() // the first events that ever came
		c := s.Cursor()
		defer c.Close()
		if n := took(); n != 0 {
			t.Errorf("%v with nobody behind", n)
		}
		for i := range 2000 {
			m := wire.Meta{Namespace: []byte("d"), Name: []byte("a"), UID: []byte("u"), ResourceVersion: []byte(strconv.Itoa(i + 1))}
			if err := d.r.w.Put(&m, []byte{0x0a, 0}); err != nil {
				t.Fatal(err)
			}
			d.r.w.Flush()
		}
		read := func() { c.Next(make([]store.Change, 10)) }
		if read(); took() != 0 {
			t.Errorf("waited before it was known that the handler goes on")
		}
		if n := took(); n != 0 {
			t.Errorf("%v for a handler that does not go on", n)
		}
		read()
		if n := took(); n != maxBatch*spareLeast {
			t.Errorf("%v with a handler behind, want %v", n, maxBatch*spareLeast)
		}
		read()
		time.Sleep(maxBatch * spareLeast / 2)
		if n := took(); n != maxBatch*spareLeast/2 {
			t.Errorf("%v for events that took half the time to come, want %v", n, maxBatch*spareLeast/2)
		}
		for range 40 { // a handler that takes longer for one
			read()
			time.Sleep(10 * spareMost)
			took()
		}
		read()
		time.Sleep(10 * spareMost)
		if n, want := took(), (maxBatch-10)*spareMost; n > want || n < want-maxBatch*time.Microsecond {
			t.Errorf("%v with a slow handler behind, want %v", n, want)
		}
		read()
		cancel()
		if n := took(); n != 0 {
			t.Errorf("%v after the end", n)
		}
	})
}
