package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestListReaderStatus checks that a Status in place of a list becomes a *StatusError, and that
// apierrors.IsResourceExpired recognizes it.
func TestListReaderStatus(t *testing.T) {
	expired := apierrors.NewResourceExpired("the token is too old").Status()
	expired.ListMeta.Continue = "another"
	busy := apierrors.NewTooManyRequests("busy", 7).Status()
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "").Status()
	for _, want := range []metav1.Status{expired, busy, missing, {}} {
		for _, enc := range encodings {
			body := encode(t, enc, want.DeepCopy())
			_, err := NewListReader(bytes.NewReader(body), enc, Limits{}).Next()
			var s *StatusError
			if !errors.As(err, &s) {
				t.Fatalf("%v: %v", enc, err)
			}
			got := s.Err.ErrStatus
			got.TypeMeta, want.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
			check.Equal(t, cmp.Diff(want, got), "", "%v", enc)
			if apierrors.IsResourceExpired(err) != (want.Reason == metav1.StatusReasonExpired) {
				t.Errorf("%v: IsResourceExpired is wrong of %v", enc, err)
			}
			if read, err := ReadStatus(enc, body); err != nil || read.Message != want.Message {
				t.Errorf("%v: ReadStatus: %v", enc, err)
			}
		}
	}
}

// TestReadStatusWithoutKind checks that a JSON Status may lack its kind only if its code is at
// least 400.
func TestReadStatusWithoutKind(t *testing.T) {
	s, err := ReadStatus(JSON, []byte(`{"status":"Failure","message":"too old","code":410}`))
	if err != nil || s.Code != 410 || s.Kind != "Status" {
		t.Errorf("%v %v", s, err)
	}
	for _, body := range []string{`{}`, `{"code":200}`, `{"kind":"Pod","code":410}`} {
		if s, err := ReadStatus(JSON, []byte(body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v %v", body, s, err)
		}
	}
}

func TestReadStatusRefuses(t *testing.T) {
	pod := simPods(1)[0]
	for _, enc := range encodings {
		for _, body := range [][]byte{nil, []byte("404 page not found\n"), []byte("{"), encode(t, enc, &pod)} {
			if enc == Protobuf && len(body) == 0 {
				continue // an empty message is an empty Status
			}
			if s, err := ReadStatus(enc, body); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v %.20q: %v %v", enc, body, s, err)
			}
		}
	}
	check.ErrorIs(t, DecodeStatus(JSON, []byte("[]")), ErrMalformed, "DecodeStatus")
}

// TestErrorsAreFinal checks that a reader that returned an error returns the same error from the
// next call.
func TestErrorsAreFinal(t *testing.T) {
	l := NewListReader(bytes.NewReader([]byte(`{"items":[1`)), JSON, Limits{})
	_, first := l.Next()
	_, second := l.Next()
	if first == nil || first == io.EOF || second != first {
		t.Errorf("%v, then %v", first, second)
	}
	w := NewWatchReader(bytes.NewReader([]byte(`[]`)), JSON, Limits{})
	_, first = w.Next()
	_, second = w.Next()
	if first == nil || second != first {
		t.Errorf("%v, then %v", first, second)
	}
}
