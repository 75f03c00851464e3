package wire

import (
	"bytes"
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusError is a Status that a server sent, as the body of an answer or in an ERROR event. It
// unwraps to *apierrors.StatusError, so that apierrors.IsGone and its like work on it.
type StatusError struct{ Err *apierrors.StatusError }

func (e *StatusError) Error() string { return "server answered: " + e.Err.Error() }

func (e *StatusError) Unwrap() error { return e.Err }

// ReadStatus decodes a body that is a Status, in protobuf with or without the k8s\0 envelope, in
// JSON without its kind where its code is one of an error. The error for any other body is a
// *SyntaxError.
func ReadStatus(enc Encoding, body []byte) (*metav1.Status, error) {
	s := &metav1.Status{}
	if enc == JSON {
		if err := json.Unmarshal(body, s); err != nil {
			return nil, malformedf(0, "status: %v", err)
		}
		if s.Kind == "" && s.Code >= http.StatusBadRequest {
			s.APIVersion, s.Kind = "v1", "Status"
		}
		if s.Kind != "Status" {
			return nil, malformedf(0, "a %.80q where a Status was expected", s.Kind)
		}
		return s, nil
	}
	if bytes.HasPrefix(body, []byte(protoMagic)) {
		var e envelope
		if err := e.cut(body, 0); err != nil {
			return nil, err
		}
		if string(e.kind) != "Status" {
			return nil, malformedf(0, "a %.80q where a Status was expected", e.kind)
		}
		body = e.raw
	}
	if err := s.Unmarshal(body); err != nil {
		return nil, malformedf(0, "status: %v", err)
	}
	s.APIVersion, s.Kind = "v1", "Status"
	return s, nil
}

// DecodeStatus returns the object of an ERROR event as a *StatusError, or a *SyntaxError if it is
// no Status. It never returns nil.
func DecodeStatus(enc Encoding, object []byte) error {
	s, err := ReadStatus(enc, object)
	if err != nil {
		return err
	}
	return newStatusError(s)
}

func newStatusError(s *metav1.Status) error {
	return &StatusError{Err: &apierrors.StatusError{ErrStatus: *s}}
}
