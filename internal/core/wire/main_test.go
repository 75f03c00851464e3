package wire

import (
	"os"
	"testing"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	os.Exit(m.Run())
}
