//go:build !weir_safe

package store

import (
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestPutAllocates checks what Put allocates: nothing for a version that is already in the table,
// and only the Object and its packed bytes for a new version. With -race, the test is skipped,
// because pools then drop entries at random.
func TestPutAllocates(t *testing.T) {
	testenv.SkipUnderRace(t)
	defer func(was bool) { checking = was }(checking)
	checking = false // the checks allocate
	set := newBenchSet(t, wire.Protobuf, 1000)
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	set.fill(t, w)
	w.BeginReplace(false)
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		check.NoError(t, w.Put(&set.metas[i%1000], set.raws[i%1000]))
		i++
	}); n != 0 {
		t.Errorf("%v allocations for an unchanged object", n)
	}
	rv := []byte("1000000")
	if n := testing.AllocsPerRun(2000, func() {
		m := set.metas[i%1000]
		rv = strconv.AppendInt(rv[:0], int64(1_000_000+i), 10)
		m.ResourceVersion = rv
		check.NoError(t, w.Put(&m, set.raws[i%1000]))
		i++
	}); n > 2.5 {
		t.Errorf("%v allocations for an update", n)
	}
	w.Flush()
}
