package informertest

import (
	"maps"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
)

const (
	exact        = string(metav1.ResourceVersionMatchExact)
	notOlderThan = string(metav1.ResourceVersionMatchNotOlderThan)
)

// refuseList returns the Status with which kube-apiserver refuses a LIST with the parameters q, or
// nil if it accepts them.
func refuseList(q url.Values) *metav1.Status {
	_, err := request.ParseOptions(q)
	if err == nil {
		return nil
	}
	status := err.(apierrors.APIStatus).Status() // ParseOptions returns no other type of error
	return &status
}

// refuseWatch returns the Status with which the server refuses a WATCH with the parameters q, or
// nil if it accepts them. e selects how the server handles the parameter sendInitialEvents.
func refuseWatch(q url.Values, e InitialEvents) *metav1.Status {
	if rv := q.Get("resourceVersion"); rv != "" {
		if _, err := resourceversion.Parse(rv); err != nil {
			return Invalid("resourceVersion " + err.Error())
		}
	}
	if q.Has("sendInitialEvents") && e != Honoured {
		if e == Refused {
			return Invalid("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		}
		q = maps.Clone(q) // with e == Ignored, the server ignores these parameters
		q.Del("sendInitialEvents")
		q.Del("resourceVersionMatch")
	}
	return refuseList(q)
}
