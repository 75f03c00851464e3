package testenv

import (
	"flag"
	"testing"
)

// SkipUnderRace skips a test when the race detector is on, because the detector slows some tests
// from ten seconds to two minutes. Use it in a package whose other tests need the detector, for a
// test that has only one goroutine, runs in virtual time, measures memory, or repeats another test
// in another encoding. make unit also runs these packages without the detector; TestMakefile checks
// that.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("make unit runs it without the race detector")
	}
}

// RunUnderRace limits the tests of a package that run under the race detector to those that match
// pattern, which is a pattern of -run. The flag -run has precedence. TestMain calls RunUnderRace in
// packages where only few tests start goroutines.
func RunUnderRace(pattern string) {
	flag.Parse()
	run := flag.Lookup("test.run").Value
	if Race && run.String() == "" {
		if err := run.Set(pattern); err != nil {
			panic(err)
		}
	}
}
