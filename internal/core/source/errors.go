package source

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/wire"
)

var (
	// ErrStalled is returned in three cases: a LIST receives no byte for Options.IdleTimeout; the
	// server has not ended a WATCH 30 s after the watch's timeout; or a response does not start within
	// Options.HeaderTimeout.
	ErrStalled = errors.New("the server stopped sending")
	// ErrMediaType is returned for a response with an unknown content type or content encoding.
	ErrMediaType = errors.New("unreadable media type")
	// ErrResource is returned for a Resource that no server can serve, for example because its
	// namespace or a selector is malformed.
	ErrResource = errors.New("invalid resource")
)

// RequestError is returned if a request failed without a response, or if a stream ended early.
type RequestError struct {
	Method string // "LIST", "WATCH" or "GET"
	Path   string // the path of the URL, without host and query
	Err    error
}

func (e *RequestError) Error() string { return e.Method + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns Err, so that errors.Is finds syscall.ECONNREFUSED, context.Canceled or ErrStalled.
func (e *RequestError) Unwrap() error { return e.Err }

// maxErrorBody is the maximum number of bytes that are read from the body of an error response.
const maxErrorBody = 64 << 10

// statusError returns the error for a response whose code is not 200. It reads at most maxErrorBody
// bytes of the body. The caller closes the body.
func statusError(method, path string, resp *http.Response, body io.Reader) error {
	status := readStatus(resp.Header, body)
	if status == nil {
		status = plainStatus(method, path, resp)
	}
	status.Code = cmp.Or(status.Code, int32(resp.StatusCode))
	mergeRetryAfter(status, resp.Header.Get("Retry-After"))
	return &apierrors.StatusError{ErrStatus: *status}
}

// readStatus reads the body as a Status. It returns nil if the body is not a Status of a failure.
func readStatus(h http.Header, r io.Reader) *metav1.Status {
	contentType := h.Get("Content-Type")
	enc, err := wire.EncodingOf(contentType)
	if err != nil && contentType != "" {
		return nil
	}
	r, err = wire.NewBody(r, h.Get("Content-Encoding"))
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r, maxErrorBody))
	if err != nil {
		return nil
	}
	if contentType == "" {
		if enc, err = wire.EncodingAt(body); err != nil {
			return nil
		}
	}
	status, err := wire.ReadStatus(enc, body)
	if err != nil || status == nil || status.Status == metav1.StatusSuccess {
		return nil
	}
	return status
}

// plainStatus returns a Status for a response whose body is not a Status, such as a proxy's HTML
// page or "404 page not found" of net/http. It does not quote the body, which may be long.
func plainStatus(method, path string, resp *http.Response) *metav1.Status {
	mediaType := "no content type"
	if ct := resp.Header.Get("Content-Type"); ct != "" {
		mediaType = "unreadable content type"
		if mt, _, err := mime.ParseMediaType(ct); err == nil && len(mt) < 80 {
			mediaType = mt
		}
	}
	text := cmp.Or(http.StatusText(resp.StatusCode), "unknown status")
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(resp.StatusCode),
		Reason:  reasonOf(resp.StatusCode),
		Message: fmt.Sprintf("%s %s: %d %s (%s, not a Kubernetes Status)", method, path, resp.StatusCode, text, mediaType),
		Details: &metav1.StatusDetails{},
	}
}

// reasonOf returns the reason that a Status with this HTTP code has. The functions of apierrors,
// such as IsGone, check the reason.
func reasonOf(code int) metav1.StatusReason {
	if code == http.StatusGone {
		return metav1.StatusReasonGone // NewGenericServerResponse has no reason for 410
	}
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "", 0, false).ErrStatus.Reason
}

// mergeRetryAfter sets the Status's RetryAfterSeconds from a Retry-After header, which contains
// seconds or a date. If the Status already has a larger value, it is a no-op.
func mergeRetryAfter(status *metav1.Status, header string) {
	seconds := RetryAfter(header)
	if seconds == 0 {
		return
	}
	status.Details = cmp.Or(status.Details, &metav1.StatusDetails{})
	status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, seconds)
}

// RetryAfter returns the seconds of a Retry-After header, at most math.MaxInt32, the maximum that a
// Status can contain. It returns 0 if the date is in the past, or if the header is neither a number
// of seconds nor a date.
func RetryAfter(header string) int32 {
	header = strings.TrimSpace(header)
	seconds, err := strconv.ParseInt(header, 10, 64)
	// if out of range, seconds is the nearest int64
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		at, err := http.ParseTime(header)
		if err != nil {
			return 0
		}
		seconds = int64(math.Ceil(time.Until(at).Seconds()))
	}
	return int32(min(max(seconds, 0), math.MaxInt32))
}
