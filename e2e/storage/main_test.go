package storage

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// deadline bounds every wait of these tests. It is long because no test measures time.
const deadline = 2 * time.Minute

// atOnce is the number of tests that run in parallel. It is high on any machine, because the suites
// mostly wait: for each other, or 3 s until their objects expire.
const atOnce = "32"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
