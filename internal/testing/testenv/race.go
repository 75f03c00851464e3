package testenv

import (
	"flag"
	"testing"
)

// SkipUnderRace skips a test when the race detector is on, because some tests then take two minutes
// instead of ten seconds. Use it in a package whose other tests need the detector, for a test that
// has only one goroutine, runs in virtual time, measures memory, or repeats another test in another
// encoding. The command "make unit" also runs these packages without the detector; TestMakefile
// checks that it does.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("make unit runs it without the race detector")
	}
}

// RunUnderRace selects which tests of a package run under the race detector: those that match
// pattern, which has the syntax of the flag -run. If -run is set, RunUnderRace has no effect.
// TestMain calls it in packages in which only a few tests start goroutines.
func RunUnderRace(pattern string) {
	flag.Parse()
	run := flag.Lookup("test.run").Value
	if Race && run.String() == "" {
		if err := run.Set(pattern); err != nil {
			panic(err)
		}
	}
}
