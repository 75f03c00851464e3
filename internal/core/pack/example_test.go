package pack_test

import (
	"fmt"
	"strings"

	"github.com/weirproject/weir/internal/core/pack"
)

// A packed object must be stored with its dictionary and its size.
func Example() {
	p := pack.New()
	for i := range 100 {
		raw := fmt.Appendf(nil, "object %d: %s", i, strings.Repeat("what all have in common, ", 20))
		packed, dict := p.Pack(nil, raw)
		p.Observe(raw)
		if i == 99 {
			back, err := dict.Unpack(nil, string(packed), len(raw))
			fmt.Println(len(raw), len(packed) < 50, string(back) == string(raw), err)
		}
	}
	// Output: 511 true true <nil>
}
