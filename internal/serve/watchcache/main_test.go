package watchcache

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks run without the checks
		checking = checking || !testenv.Race // with the race detector, the checks need minutes
	}
	goleak.VerifyTestMain(m)
}
