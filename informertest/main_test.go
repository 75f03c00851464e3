package informertest_test

import (
	"flag"
	"io"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// Stories make much garbage and hold little. Those that measure memory collect it first.
	debug.SetGCPercent(400)
	// Informers that are led into trouble log a lot.
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(io.Discard)
	if os.Getenv("INFORMERTEST_CHILD") != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}
