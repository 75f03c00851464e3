package wire

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400) // values of every kind are much garbage
	}
	os.Exit(m.Run())
}
