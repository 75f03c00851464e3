package api

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// failure is an answer that is an error.
type failure struct {
	code       int
	reason     metav1.StatusReason
	message    string
	retryAfter int
	cause      metav1.CauseType
	token      string
}

func badRequest(message string) *failure {
	return &failure{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: message}
}

func invalid(message string) *failure {
	return &failure{code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, message: message}
}

func expired(message string) *failure {
	return &failure{code: http.StatusGone, reason: metav1.StatusReasonExpired, message: message}
}

func tooLarge() *failure {
	return &failure{
		code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout, message: "Too large resource version", retryAfter: 1,
		cause: metav1.CauseTypeResourceVersionTooLarge,
	}
}

func notFound() *failure {
	return &failure{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "the server could not find the requested resource"}
}

var reasons = map[int]metav1.StatusReason{
	400: metav1.StatusReasonBadRequest, 401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 405: metav1.StatusReasonMethodNotAllowed,
	410: metav1.StatusReasonExpired, 422: metav1.StatusReasonInvalid, 429: metav1.StatusReasonTooManyRequests,
	500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout,
}

// failureOf returns the failure that a rule demands by its code. With 429 it asks for a pause of
// one second.
func failureOf(code int) *failure {
	f := &failure{code: code, reason: reasons[code], message: "the simulation says so"}
	if code == 429 {
		f.retryAfter = 1
	}
	return f
}

func (f *failure) status() *metav1.Status {
	s := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(f.code), Reason: f.reason, Message: f.message,
		ListMeta: metav1.ListMeta{Continue: f.token},
	}
	if f.retryAfter > 0 || f.cause != "" {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.retryAfter)}
		if f.cause != "" {
			s.Details.Causes = []metav1.StatusCause{{Type: f.cause, Message: f.message}}
		}
	}
	return s
}

func (f *failure) json() []byte {
	b, err := json.Marshal(f.status())
	if err != nil {
		panic(err)
	}
	return b
}

// envelope puts a protobuf message into kube-apiserver's envelope.
func envelope(apiVersion, kind string, raw []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	b, err := u.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), b...)
}
