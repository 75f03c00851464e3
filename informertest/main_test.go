package informertest_test

import (
	"flag"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC() // stories that measure memory collect garbage first
	// Turn off klog, because the errors in the stories make informers log a lot.
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
