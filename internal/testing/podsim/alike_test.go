package podsim

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestAlikeStaysAsItIs checks that the pods of New remain byte for byte the same, because published
// figures were measured with them.
func TestAlikeStaysAsItIs(t *testing.T) {
	p := New(1_000, 1)
	sum := sha256.New()
	for i := range p.Len() {
		raw, err := p.Pod(i).Marshal()
		check.NoError(t, err)
		sum.Write(raw)
	}
	const want = "1141295850458888f03eb3d363227a945e38636801307882531084ec92e73a19"
	check.Equal(t, hex.EncodeToString(sum.Sum(nil)), want, "the pods hash to")
}
