package pack

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	os.Exit(m.Run())
}

// afterGC waits until cond is true. It collects garbage before each check, because the runtime runs
// cleanups some time after a collection.
func afterGC(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.Eventually(t, ctx, what, func() bool {
		runtime.GC()
		return cond()
	})
}

// withoutUID removes an object's uid, as the store does before it packs an object.
func withoutUID(tb testing.TB, enc wire.Encoding, raw []byte) []byte {
	tb.Helper()
	var m wire.Meta
	check.NoError(tb, wire.ReadMeta(enc, raw, &m))
	return bytes.Replace(bytes.Clone(raw), bytes.Clone(m.UID), nil, 1)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// noise returns incompressible text.
func noise(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rnd.IntN(90))
	}
	return string(b)
}
