//go:build unix

package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// writeLogs writes a log of 10 events for each name, one behind the other in time.
func writeLogs(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		paths = append(paths, filepath.Join(dir, name))
		check.NoError(t, os.WriteFile(paths[i], []byte(seconds(10*i+1, 10*i+11)), 0o600))
	}
	return paths
}

// Logs that are rotated, and pruned, while others are read are read all the same.
func TestMergeRotated(t *testing.T) {
	paths := writeLogs(t, "audit-1.log", "audit-2.log", "audit.log")
	m, err := NewMerge(t.Context(), paths, nil)
	check.NoError(t, err)
	check.NoError(t, os.Rename(paths[2], paths[2]+".3"))
	check.NoError(t, os.WriteFile(paths[2], []byte(seconds(1000, 1010)), 0o600))
	check.NoError(t, os.Remove(paths[1]))
	got, err := drain(t, m)
	if n := m.Counts(); err != nil || len(got) != 30 || got[29] != 30 || len(n.Missing) > 0 {
		t.Errorf("%v, %v, missing %q", got, err, n.Missing)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// If there are more logs than stay open, those that are removed while others are read are reported,
// and the others are read.
func TestMergeMissing(t *testing.T) {
	var names []string
	for i := range maxHeld + 3 {
		names = append(names, fmt.Sprintf("audit-%03d.log", i))
	}
	paths := writeLogs(t, names...)
	shuffled := slices.Clone(paths)
	slices.Reverse(shuffled[100:])
	m, err := NewMerge(t.Context(), shuffled, nil)
	check.NoError(t, err)
	for _, path := range paths[1:] {
		check.NoError(t, os.Remove(path))
	}
	check.NoError(t, os.WriteFile(paths[2], []byte(seconds(5000, 5010)), 0o600))
	got, err := drain(t, m)
	if err != nil || len(got) != 10*(maxHeld+1) || !slices.IsSorted(got) || got[10] != 31 {
		t.Errorf("%d events, sorted %v, %v", len(got), slices.IsSorted(got), err)
	}
	missing := m.Counts().Missing
	if len(missing) != 2 || missing[0] != paths[1]+" was removed" || !strings.HasSuffix(missing[1], "another file has its name") {
		t.Errorf("missing: %q", missing)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
