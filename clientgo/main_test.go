package clientgo

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	goleak.VerifyTestMain(m,
		// Idle connections of the tests' own clients. client-go shares them between clients and never
		// closes them.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"),
	)
}
