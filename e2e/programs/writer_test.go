package programs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// writer tests a program that writes. It runs the unchanged or the changed program on a separate
// cluster until the program has finished its work, and returns the result. Both programs must have
// the same result. They cannot run on one cluster, because both would write.
type writer func(t *testing.T, ctx context.Context, binary string) (used usage, end []string)

func (run writer) try(t *testing.T, ctx context.Context, plain, changed string) (before, after usage) {
	t.Helper()
	var used [2]usage
	var ends [2][]string
	for i, binary := range []string{plain, changed} {
		if !t.Run(filepath.Base(binary), func(t *testing.T) { used[i], ends[i] = run(t, ctx, binary) }) {
			t.FailNow()
		}
	}
	if !slices.Equal(ends[0], ends[1]) {
		t.Fatalf("they come to different ends: %s", firstDifference(ends[0], ends[1]))
	}
	return used[0], used[1]
}

// firstDifference describes the first difference between a and b.
func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%s, and %s", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, and %d", len(a), len(b))
}
