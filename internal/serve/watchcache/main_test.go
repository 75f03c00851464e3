package watchcache

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/core/checks"
)

func TestMain(m *testing.M) {
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks measure without the checks
		checking = checking || !checks.Race // which makes minutes of them
	}
	goleak.VerifyTestMain(m)
}
