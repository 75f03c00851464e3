package doctor

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

var madeLog = flag.String("doctor.write", "", "where TestMadeLog writes its log, such as a pipe")

// TestMadeLog writes the log of TestManyEvents: of one seed the same again. With -doctor.write PATH
// it writes it once, for weir doctor to read.
func TestMadeLog(t *testing.T) {
	if *madeLog == "" {
		if !bytes.Equal(made(t, 1), made(t, 1)) || bytes.Equal(made(t, 1), made(t, 2)) {
			t.Error("a seed does not tell which log it is")
		}
		return
	}
	f, err := os.OpenFile(*madeLog, os.O_WRONLY|os.O_CREATE, 0o600)
	check.NoError(t, err)
	if _, err := io.Copy(f, newMadeLog(*manySeed, *manyEvents)); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, f.Close())
}

// made returns a small log of a seed.
func made(t *testing.T, seed uint64) []byte {
	t.Helper()
	text, err := io.ReadAll(newMadeLog(seed, 100))
	check.NoError(t, err)
	return text
}

// newMadeLog returns the log of a seed: six culprits, innocents, and n events of a crowd.
func newMadeLog(seed uint64, n int) io.Reader {
	w := newWorld(seed)
	w.innocents()
	w.culprits()
	return newCrowd(w, n)
}
