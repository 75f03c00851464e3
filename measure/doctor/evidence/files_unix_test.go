//go:build unix

package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestMergeRotated checks that logs that are rotated or removed while Merge reads other logs are
// still read.
func TestMergeRotated(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, name := range []string{"audit-1.log", "audit-2.log", "audit.log"} {
		paths = append(paths, filepath.Join(dir, name))
		check.NoError(t, os.WriteFile(paths[i], []byte(seconds(10*i+1, 10*i+11)), 0o600))
	}
	m, err := NewMerge(paths, nil)
	check.NoError(t, err)
	check.NoError(t, os.Rename(paths[2], paths[2]+".3"))
	check.NoError(t, os.WriteFile(paths[2], []byte(seconds(1000, 1010)), 0o600))
	check.NoError(t, os.Remove(paths[1]))
	got, err := drain(t, m)
	if n := m.Counts(); err != nil || len(got) != 30 || got[29] != 30 || !n.Complete() {
		t.Errorf("%v, %v, %+v", got, err, n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestMergePipe checks that a log that can be read only once is read completely, at any place among
// the other logs. It checks that one event with a wrong time does not delay the rest of its log.
func TestMergePipe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	check.NoError(t, os.WriteFile(file, []byte(seconds(50, 60)+at(4_000_000_000)+seconds(60, 150)), 0o600))
	r, w, err := os.Pipe()
	check.NoError(t, err)
	defer r.Close()
	go func() {
		_, _ = w.WriteString(seconds(1, 4000))
		_ = w.Close()
	}()
	m, err := NewMerge([]string{file, fmt.Sprint("/dev/fd/", r.Fd())}, nil)
	check.NoError(t, err)
	got, err := drain(t, m)
	if n := m.Counts(); err != nil || len(got) != 3999+100 || !slices.IsSorted(got) || n.Misdated != 1 {
		t.Errorf("%d events, sorted %v, %v, %+v", len(got), slices.IsSorted(got), err, n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
