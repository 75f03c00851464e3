package sim

// clientGoFails contains the checks that client-go 0.37 fails, with the reasons. client-go's
// informer is run for comparison. If every informer fails a check, the check is probably wrong. If
// client-go's informer passes a check that other informers fail, their failure is most likely real,
// so examine it first.
var clientGoFails = map[string]string{
	"stale":           "a request has no deadline, and a watch from a resourceVersion that a server does not have any more is begun again and again",
	"stale-bytes":     "a stale server's list is not distinguished from a current one",
	"never-synced":    "a request has no deadline",
	"handler-stale":   "a relist under the same resourceVersion is delivered as an update from an object that the handler never saw",
	"back":            "the store takes the version that comes last",
	"read-back":       "the store takes the version that comes last",
	"relist-is-whole": "the store takes the version that comes last",
	"order":           "an event that comes twice is delivered twice",
	"spurious-delete": "an event that comes twice is delivered twice",
	"progress":        "a watch whose connection stands still is never given up",
	"hammers":         "some answers are asked for again at once",
	"deadlock":        "the wait before the next request does not end with the context",
	"goroutines":      "the wait before the next request does not end with the context",
}

// KnownFailure reports whether the violation is of client-go's informer, and of a check in
// clientGoFails.
func (v Violation) KnownFailure() bool {
	_, ok := clientGoFails[v.Rule]
	return v.Runner == ClientGo && ok
}
