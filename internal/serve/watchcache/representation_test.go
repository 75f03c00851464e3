package watchcache

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
)

// TestNewChecksPaths is for developers who add a field: New finds a wrong path, but only for a kind
// that is served.
func TestNewChecksPaths(t *testing.T) {
	r := things
	r.Fields = []Field{{Label: "x", Paths: []string{"a[["}}}
	if _, err := New(Config{Resource: r, Encoding: wire.JSON}); err == nil {
		t.Error("no error for a broken path")
	}
}
