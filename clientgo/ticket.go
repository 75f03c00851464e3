package clientgo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stub is an object cut down to what the reflector reads of it.
type stub struct {
	Metadata stubMeta `json:"metadata"`
}

type stubMeta struct {
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Generation      int64             `json:"generation,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// appendMeta appends the stub of an object as JSON.
func appendMeta(dst []byte, m metav1.Object, ticket int64) []byte {
	s := stub{stubMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: string(m.GetUID()),
		ResourceVersion: m.GetResourceVersion(), Generation: ticket,
	}}
	if end, ok := m.GetAnnotations()[metav1.InitialEventsAnnotationKey]; ok {
		s.Metadata.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and a number always can
	}
	return append(dst, text...)
}

// notDecoded reports whether a status is that of a client that could not decode an event.
func notDecoded(status *metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == "ClientWatchDecoding" })
}

// appendStatus appends the object of an ERROR event.
func appendStatus(dst []byte, object runtime.Object) ([]byte, error) {
	status, ok := object.(*metav1.Status)
	if !ok {
		err, is := apierrors.FromObject(object).(apierrors.APIStatus)
		if !is {
			return dst, fmt.Errorf("watch ended with %T", object)
		}
		s := err.Status()
		status = &s
	}
	status = status.DeepCopy()
	if notDecoded(status) {
		// The event would come again and again to who resumes. As in client-go a list is made, which may be of a later version.
		status.Code, status.Reason = http.StatusGone, metav1.StatusReasonExpired
	}
	status.APIVersion, status.Kind = "v1", "Status"
	text, err := json.Marshal(status)
	return append(dst, text...), err
}
