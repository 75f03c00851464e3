package informertest

import (
	"fmt"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/resourceversion"
)

const (
	exact        = string(metav1.ResourceVersionMatchExact)
	notOlderThan = string(metav1.ResourceVersionMatchNotOlderThan)
)

// refuseList returns an error if a LIST's parameters contradict each other, or nil.
func refuseList(q url.Values) *metav1.Status {
	rv, match, token := q.Get("resourceVersion"), q.Get("resourceVersionMatch"), q.Get("continue")
	_, err := resourceversion.Parse(rv)
	switch {
	case match != "" && rv == "":
		return Invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")
	case match != "" && token != "":
		return Invalid("resourceVersionMatch is forbidden when continue is provided")
	case match != "" && match != exact && match != notOlderThan:
		return Invalid(fmt.Sprintf("resourceVersionMatch %q is not supported", match))
	case match == exact && rv == "0":
		return Invalid(`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
	case q.Get("sendInitialEvents") != "":
		return Invalid("sendInitialEvents is forbidden for list")
	case token != "" && rv != "" && rv != "0":
		return badRequest("specifying resource version is not allowed when using continue")
	case rv != "" && err != nil:
		return badRequest(fmt.Sprintf("invalid resource version: %q", rv))
	}
	return nil
}

// refuseWatch returns an error if a WATCH's parameters contradict each other, or nil.
func refuseWatch(q url.Values, e InitialEvents) *metav1.Status {
	rv, match, initial := q.Get("resourceVersion"), q.Get("resourceVersionMatch"), q.Get("sendInitialEvents") != ""
	_, err := resourceversion.Parse(rv)
	switch {
	case initial && e == Refused:
		return Invalid("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	case initial && e == Honoured && match != notOlderThan:
		return Invalid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	case !initial && match != "":
		return Invalid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	case match != "" && q.Get("continue") != "":
		return Invalid("resourceVersionMatch is forbidden when continue is provided")
	case rv != "" && err != nil:
		return Invalid(fmt.Sprintf("resourceVersion %q is not a number", rv))
	}
	return nil
}

func badRequest(message string) *metav1.Status {
	return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, message)
}
