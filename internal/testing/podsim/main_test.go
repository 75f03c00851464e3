package podsim

import (
	"os"
	"testing"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	testenv.RunUnderRace("^TestConcurrentUse$") // the other tests start no goroutines
	os.Exit(m.Run())
}
