package decode

import (
	"os"
	"testing"

	"github.com/weirproject/weir/internal/testing/testgc"
)

func TestMain(m *testing.M) {
	testgc.Relax()
	os.Exit(m.Run())
}
