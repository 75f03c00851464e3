package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrMalformed is returned when bytes do not follow their encoding, or break the package's own
	// rules (see the package comment). It is always wrapped in a *SyntaxError.
	ErrMalformed = errors.New("malformed")
	// ErrTooLarge is returned when an object is larger than Limits.MaxObject. It is always wrapped in
	// a *SyntaxError.
	ErrTooLarge = errors.New("too large")
)

// SyntaxError describes a mistake in a body or in one object, and where it is. Err is ErrMalformed,
// ErrTooLarge, io.ErrUnexpectedEOF for a body that ends too early, or the error of the underlying
// reader.
type SyntaxError struct {
	Offset int64  // bytes from the start of the decoded body, or of the object
	What   string // the part that was being read, and the mistake
	Err    error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("offset %d: %s: %v", e.Offset, e.What, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// ItemError is returned if the item of a list, or the object of an event, is complete but
// malformed. The reader can continue with the next item or event. ItemError wraps a *SyntaxError.
type ItemError struct{ Err error }

func (e *ItemError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake in the item.
func (e *ItemError) Unwrap() error { return e.Err }

// final reports whether a reader that returned err cannot continue.
func final(err error) bool {
	_, ok := err.(*ItemError)
	return !ok
}

func malformed(offset int64, what string) error {
	return &SyntaxError{Offset: offset, What: what, Err: ErrMalformed}
}

func malformedf(offset int64, format string, args ...any) error {
	return malformed(offset, fmt.Sprintf(format, args...))
}

// StatusError is a Status that a server sent, as the body of a response or in an ERROR event. It
// unwraps to *apierrors.StatusError, so that apierrors.IsGone and similar functions work on it.
type StatusError struct{ Err *apierrors.StatusError }

func (e *StatusError) Error() string { return "server answered: " + e.Err.Error() }

func (e *StatusError) Unwrap() error { return e.Err }

// ReadStatus decodes a body that is a Status. A protobuf body may lack the k8s\0 envelope. A JSON
// body may lack its kind if its code is at least 400, as the codes of errors are. For any other
// body, the error is a *SyntaxError.
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
		var tm TypeMeta
		raw, err := cutEnvelope(body, 0, &tm)
		if err != nil {
			return nil, err
		}
		if tm.Kind != "Status" {
			return nil, malformedf(0, "a %.80q where a Status was expected", tm.Kind)
		}
		body = raw
	}
	if err := s.Unmarshal(body); err != nil {
		return nil, malformedf(0, "status: %v", err)
	}
	s.APIVersion, s.Kind = "v1", "Status"
	return s, nil
}

// DecodeStatus returns the object of an ERROR event as a *StatusError, or a *SyntaxError if the
// object is no Status. It never returns nil.
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
