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

// A log that can be read only once is read whole, wherever it comes among the others, and one that
// a line of a wrong time is in does not hold back its other lines.
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
	m, err := NewMerge(t.Context(), []string{file, fmt.Sprint("/dev/fd/", r.Fd())}, nil)
	check.NoError(t, err)
	got, err := drain(t, m)
	if n := m.Counts(); err != nil || len(got) != 3999+100 || !slices.IsSorted(got) || n.Misdated != 1 {
		t.Errorf("%d events, sorted %v, %v, %+v", len(got), slices.IsSorted(got), err, n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
