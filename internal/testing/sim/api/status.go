package api

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// failure is a Status that a server sends instead of a result.
type failure metav1.Status

func newFailure(err *apierrors.StatusError) *failure {
	f := failure(err.ErrStatus)
	f.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &f
}

func badRequest(message string) *failure { return newFailure(apierrors.NewBadRequest(message)) }

func invalid(message string) *failure {
	f := newFailure(apierrors.NewInvalid(schema.GroupKind{}, "", nil))
	f.Message = message
	return f
}

func expired(message string) *failure { return newFailure(apierrors.NewResourceExpired(message)) }

func tooLarge() *failure {
	f := newFailure(apierrors.NewTimeoutError("Too large resource version", 1))
	f.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: f.Message}}
	return f
}

// failureOf returns the failure with this status code. With code 429, it asks the client to wait
// for a second.
func failureOf(code int) *failure {
	retryAfter := 0
	switch code {
	case http.StatusGone:
		return expired("the simulation says so")
	case http.StatusTooManyRequests:
		retryAfter = 1
	}
	return newFailure(apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "", "the simulation says so", retryAfter, false))
}

func (f *failure) json() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return b
}

func envelope(apiVersion, kind string, raw []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	return append([]byte("k8s\x00"), marshal(&u)...)
}
