package sim

import (
	"flag"
	"io"
	"os"
	"runtime/debug"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	debug.SetTraceback("all")
	logs := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(logs)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := logs.Set(name, value); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(io.Discard)
	// The second error handler of apimachinery sleeps until the clock is later than the process's
	// start. The clock is virtual here and earlier than that, so the sleep would last years of virtual
	// time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
