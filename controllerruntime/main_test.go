package controllerruntime_test

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m,
		// The tests also run with controller-runtime's own informers. controller-runtime's informers of
		// metadata leak the goroutine of a watch.Filter, because they do not drain a stopped watch.
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
	)
}
