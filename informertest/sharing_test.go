//go:build !weir_safe

package informertest_test

import (
	"testing"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
)

// The build tag weir_safe excludes this file, because objects share no parts when it is set.
func init() {
	sabotages = append(sabotages, sabotage{
		name:    "objects have in common what is the same",
		native:  func(o *weir.Options) { o.ShareDecoded = true },
		noticed: []string{"ForgottenCopy", "ForgottenCopyOfOld"},
	})
}

// TestEveryStoryCanFail checks that each story fails with at least one sabotage or with client-go's
// informer.
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
