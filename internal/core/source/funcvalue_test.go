package source_test

import (
	"testing"

	"github.com/weirproject/weir/internal/core/source"
)

func declared() int { return 0 }

func adding(n int) func() int { return func() int { return n } }

func TestPointer(t *testing.T) {
	one, copied := adding(1), declared
	same := one
	for name, c := range map[string]struct {
		a, b func() int
		same bool
	}{
		"a declared function":        {declared, copied, true},
		"a closure":                  {one, same, true},
		"two closures of one text":   {one, adding(1), false},
		"a function and a closure":   {declared, one, false},
		"no function":                {nil, nil, true},
		"a function and no function": {declared, nil, false},
	} {
		if got := source.FuncPointer(c.a) == source.FuncPointer(c.b); got != c.same {
			t.Errorf("%s: the same is %v", name, got)
		}
	}
}
