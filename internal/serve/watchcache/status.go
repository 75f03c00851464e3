package watchcache

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

var statusTypeMeta = wire.TypeMeta{APIVersion: "v1", Kind: "Status"}

// StatusOf returns the Status of an error. For an error without a Status, it returns an internal
// error with code 500.
func StatusOf(err error) *metav1.Status {
	var status metav1.Status
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		status = api.Status()
	} else {
		status = apierrors.NewInternalError(err).Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = cmp.Or(status.Status, metav1.StatusFailure)
	return &status
}

// WriteError answers a request with err as a Status, in an encoding that the client accepts. It
// sets Retry-After if the error has a retry time. The caller must not have written to w.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status := StatusOf(err)
	code := int(status.Code)
	if code < 100 || code > 599 {
		code = http.StatusInternalServerError
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	WriteStatus(w, r, code, status)
}

// WriteStatus answers a request with a Status, which may be a success.
func WriteStatus(w http.ResponseWriter, r *http.Request, code int, status *metav1.Status) {
	WriteValue(w, r, code, statusTypeMeta, status)
}

// WriteValue answers a request with a Go value of the named kind, in an encoding that the client
// accepts, or in JSON if it accepts none. value is a pointer to a type of k8s.io/api or to a
// Status.
func WriteValue(w http.ResponseWriter, r *http.Request, code int, kind wire.TypeMeta, value any) {
	accept := request.ParseAccept(r.Header)
	mt, ok := accept.Negotiate(func(mr request.MediaRange) bool { return mr.Shape == request.Whole })
	if !ok {
		mt.Encoding = wire.JSON
	}
	object, err := codec.Marshal(mt.Encoding, value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body := appendBody(nil, mt.Encoding, kind, object)
	if !ok { // the client accepts no encoding: kube-apiserver indents and omits the final newline
		var out bytes.Buffer
		_ = json.Indent(&out, bytes.TrimSpace(body), "", "  ") // cannot fail: body is valid JSON
		body = out.Bytes()
	}
	if len(body) > largeValue {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only in tests
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	writeBody(w, mt.Encoding, code, body)
}

// largeValue is the size in bytes above which WriteValue sets a write deadline. A value can be
// large: a Status may contain parts of the request. A smaller value fits into net/http's buffers,
// so writing it does not block.
const largeValue = 2 << 10

// appendBody appends the body of a response with one object.
func appendBody(dst []byte, enc wire.Encoding, tm wire.TypeMeta, object []byte) []byte {
	dst = wire.AppendObject(dst, enc, tm, object)
	if enc == wire.JSON {
		dst = append(dst, '\n')
	}
	return dst
}

// writeBody answers a request with the body of one object. It sets no write deadline.
func writeBody(w http.ResponseWriter, enc wire.Encoding, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", request.MediaType{Encoding: enc}.ContentType())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(body) // an error means that the client has disconnected
}

const tooLargeRetrySeconds = 1

// TooLargeError returns the 504 for a resourceVersion that does not exist yet.
func TooLargeError(want, have uint64) error {
	err := apierrors.NewTimeoutError("Too large resource version: "+resourceversion.Format(want)+", current: "+resourceversion.Format(have), tooLargeRetrySeconds)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// storeError converts an error of the store. If the store was closed during the request, the result
// is Config.Closed, which a later request would receive too.
func (c *Cache) storeError(err error) error {
	if errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("%w: %w", c.cfg.Closed, err)
	}
	return err
}

// errExpired returns the 410 for a WATCH from an expired resourceVersion.
func errExpired(want uint64) error {
	return apierrors.NewResourceExpired("too old resource version: " + resourceversion.Format(want))
}

func errNotAcceptable() error {
	return notAcceptable("only the following media types are accepted: " + wire.ContentTypeJSON + ", " + wire.ContentTypeProtobuf +
		" (built-in kinds)")
}

// notAcceptable returns a 406.
func notAcceptable(message string) error {
	return NewStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message)
}

// NewStatusError returns an error that package apierrors has no function for.
func NewStatusError(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}
