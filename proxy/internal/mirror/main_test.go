package mirror

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The init function of klog starts it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
