package testenv

import (
	"flag"
	"testing"
)

// SkipUnderRace skips a test under the race detector, which makes ten seconds of some tests two
// minutes. It is for tests that have one goroutine, run in virtual time, measure memory, or repeat
// another test in another encoding, of packages whose other tests need the detector. make unit runs
// these packages without it too, as TestMakefile checks.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("make unit runs it without the race detector")
	}
}

// RunUnderRace chooses the tests of a package that run under the race detector, by a pattern like
// -run's, unless -run chooses some. TestMain calls it where only few tests start goroutines.
func RunUnderRace(pattern string) {
	flag.Parse()
	run := flag.Lookup("test.run").Value
	if Race && run.String() == "" {
		if err := run.Set(pattern); err != nil {
			panic(err)
		}
	}
}
