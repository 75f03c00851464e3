// Package evidence reads the input of package doctor: audit logs and metrics of kube-apiserver.
//
// An audit log consists of lines of JSON, each an Event of audit.k8s.io/v1. The package reads the
// few fields that say who asked for what, when, and how long the answer took. It reads each line in
// one pass, without allocating memory for it. [Merge] reads several logs in the order of time.
// [CompareMetrics] compares two samples of /metrics.
package evidence

import (
	"errors"
)

// ErrMalformed is matched by every Fault.
var ErrMalformed = errors.New("not an Event of audit.k8s.io/v1")

// Fault is the reason why a line, or an object in a line, is not an event.
type Fault string

// The faults.
const (
	ErrNoJSON       Fault = "no JSON"
	ErrCutOff       Fault = "cut off"
	ErrInvalid      Fault = "malformed JSON, or a field of another type"
	ErrOtherKind    Fault = "JSON, but no Event of audit.k8s.io"
	ErrOtherVersion Fault = "an Event of another version than audit.k8s.io/v1"
	ErrNoStage      Fault = "an Event without a stage"
	ErrNoTime       Fault = "an Event without a stageTimestamp"
	ErrGoogle       Fault = "an entry of Google's Cloud Logging"
)

// Error describes the fault.
func (f Fault) Error() string { return string(f) }

// Is reports whether target is ErrMalformed.
func (f Fault) Is(target error) bool { return target == ErrMalformed }

// Hint returns a command that turns a log with this fault into a log that doctor can read, and the
// reason for the fault. It returns "" if there is no such command.
func (f Fault) Hint() string { return hints[f] }

var hints = map[Fault]string{
	ErrNoTime: `fluentd removes the time_key unless keep_time_key is true; if another member has that time: ` +
		`jq -c '.stageTimestamp //= (."@timestamp" // .time)' LOG | weir doctor -`,
	ErrOtherVersion: `of v1beta1: jq -c '.apiVersion = "audit.k8s.io/v1"' LOG | weir doctor -`,
	ErrOtherKind: `if there are events inside: jq -c '.. | (., (strings | fromjson?)) | objects | ` +
		`select(.kind == "Event" and .stage)' LOG | weir doctor -`,
	// Google does not log the end of a WATCH, so each WATCH would seem short.
	ErrGoogle: `without WATCHes, whose entries have no end: jq -sc 'flatten | sort_by(.timestamp)[] | .timestamp as $t | .protoPayload | ` +
		`(.methodName / ".") as $m | (.resourceName / "/") as $r | (if $r[2] == "namespaces" and ($r | length) > 4 ` +
		`then $r[3:] else [null] + $r[2:] end) as $o | select($m[-1] != "watch") | {kind: "Event", ` +
		`apiVersion: "audit.k8s.io/v1", stage: "ResponseComplete", stageTimestamp: $t, verb: $m[-1], ` +
		`user: {username: .authenticationInfo.principalEmail}, userAgent: .requestMetadata.callerSuppliedUserAgent, ` +
		`sourceIPs: [.requestMetadata.callerIp], responseStatus: {code: ({"0": 200, "5": 404, "6": 409, "7": 403, "8": 429}[.status.code // 0 | tostring] // 500)}, ` +
		`objectRef: {apiGroup: ($r[0] | if . == "core" then "" else . end), apiVersion: $r[1], namespace: $o[0], ` +
		`resource: $o[1], name: $o[2]}}' LOG | weir doctor -`,
}
