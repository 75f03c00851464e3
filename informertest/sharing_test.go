//go:build !weir_safe

package informertest_test

import (
	"testing"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
)

// Without package unsafe, no two objects share parts.
func init() {
	sabotages = append(sabotages, sabotage{
		name:    "objects have in common what is the same",
		native:  func(o *weir.Options) { o.ShareDecoded = true },
		noticed: []string{"ForgottenCopy", "ForgottenCopyOfOld"},
	})
}

// TestEveryStoryCanFail checks that one of the sabotages, or client-go, fails each story.
func TestEveryStoryCanFail(t *testing.T) {
	failed := map[string]bool{}
	for _, s := range sabotages {
		for _, story := range s.noticed {
			failed[story] = true
		}
	}
	for _, story := range informertest.Stories() {
		if clientGoFails[story.Name] == "" && clientGoWatchListFails[story.Name] == "" && !failed[story.Name] {
			t.Errorf("nothing is known to fail %s", story.Name)
		}
	}
}
