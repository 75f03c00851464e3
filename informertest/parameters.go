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

// refuseList returns the Status with which kube-apiserver refuses the parameters of a LIST, or nil.
func refuseList(q url.Values) *metav1.Status {
	_, err := request.ParseOptions(q)
	if err == nil {
		return nil
	}
	status := err.(apierrors.APIStatus).Status() // its only type
	return &status
}

// refuseWatch returns the Status with which a server refuses the parameters of a WATCH, or nil.
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
		q = maps.Clone(q) // as a server reads it that does not know the parameter
		q.Del("sendInitialEvents")
		q.Del("resourceVersionMatch")
	}
	return refuseList(q)
}
