package cluster

import "go.uber.org/goleak"

// Leaks are the options with which a test looks for goroutines that it has left: what runs now is
// not one of them, and neither is an API server that the test starts again, which lives on for the
// next one.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("github.com/weirproject/weir/e2e/cluster.(*Cluster).watchOver.func1"),
	}
}
