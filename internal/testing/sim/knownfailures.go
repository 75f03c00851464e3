package sim

// clientGoFails are the checks that client-go 0.37 fails, each with the reason. client-go is the
// control: examine a check that it passes in all worlds where others fail. A check that no informer
// can pass is no check.
var clientGoFails = map[string]string{
	"stale":           "a request has no deadline, and a watch from a resourceVersion that a server does not have any more is begun again and again",
	"stale-bytes":     "a stale server's list is not distinguished from a current one",
	"never-synced":    "a request has no deadline",
	"handler-stale":   "a relist under the same resourceVersion is delivered as an update from an object that the handler never saw",
	"back":            "the store takes the version that comes last",
	"read-back":       "the store takes the version that comes last",
	"order":           "an event that comes twice is delivered twice",
	"spurious-delete": "an event that comes twice is delivered twice",
	"progress":        "a watch whose connection stands still is never given up",
	"hammers":         "some answers are asked for again at once",
	"deadlock":        "the wait before the next try does not end with the context",
	"goroutines":      "the wait before the next try does not end with the context",
}

// KnownFailure reports whether a violation is one of those that are known of its runner.
func (v Violation) KnownFailure() bool {
	_, ok := clientGoFails[v.Rule]
	return v.Runner == ClientGo && ok
}
