package views_test

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestStringsAndBytes(t *testing.T) {
	for _, s := range []string{"", "a", "pods", strings.Repeat("weir", 1000)} {
		if b := views.Bytes(s); string(b) != s {
			t.Errorf("bytes of %q: %q", s, b)
		}
		check.Equal(t, views.String([]byte(s)), s, "string of %q", s)
		if !views.Same(s, s) {
			t.Errorf("%q is another string than itself", s)
		}
		if views.Same(s, s+"x") {
			t.Errorf("%q is the same string as a longer one", s)
		}
	}
}
