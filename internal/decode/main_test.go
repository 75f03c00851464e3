package decode

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400) // random values of every type are much garbage
	}
	os.Exit(m.Run())
}
