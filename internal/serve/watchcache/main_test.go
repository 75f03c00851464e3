package watchcache

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks measure without the checks
		checking = checking || !testenv.Race // which makes minutes of them
	}
	goleak.VerifyTestMain(m)
}
