package reflector

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestClassify(t *testing.T) {
	request := func(err error) error { return &source.RequestError{Method: "LIST", Path: "/x", Err: err} }
	inside := func(err error) error { return &wire.SyntaxError{Offset: 12, What: "item", Err: err} }
	for _, c := range []struct {
		err  error
		want error
	}{
		{status(401, ""), ErrUnauthorized},
		{status(403, ""), ErrForbidden},
		{status(404, ""), ErrUnknownResource},
		{status(405, ""), ErrMethodNotAllowed},
		{status(400, ""), ErrRejected},
		{status(422, ""), ErrRejected},
		{status(429, ""), ErrTooManyRequests},
		{status(410, ""), ErrExpired},
		{status(410, metav1.StatusReasonExpired), ErrExpired},
		{status(500, ""), ErrServer},
		{status(504, metav1.StatusReasonTimeout), ErrServer},
		{failure("too-large"), ErrServerBehind},
		{failure("event-410"), ErrExpired},
		{request(syscall.ECONNREFUSED), ErrUnreachable},
		{request(source.ErrStalled), ErrUnreachable},
		{request(source.ErrMediaType), ErrMalformed},
		{inside(request(syscall.ECONNRESET)), ErrUnreachable},
		{inside(io.ErrUnexpectedEOF), ErrMalformed},
		{inside(wire.ErrTooLarge), ErrMalformed},
		{request(ErrNoBookmark), ErrNoBookmark},
		{errors.New("of another source"), ErrUnreachable},
		{fmt.Errorf("wrapped: %w", &Error{Sentinel: ErrWentBack}), ErrWentBack},
	} {
		got := classify(Listing, c.err)
		check.ErrorIs(t, got, c.want, "%v", c.err)
		if c.want != ErrNoBookmark && c.want != ErrWentBack && !errors.Is(got, c.err) {
			t.Errorf("%v is lost", c.err)
		}
	}
}

func TestDelay(t *testing.T) {
	b := Config{}.withDefaults().Backoff
	for _, c := range []struct {
		sentinel   error
		attempt    int
		retryAfter time.Duration
		jitter     float64
		want       time.Duration
	}{
		{ErrServer, 1, 0, 0, 400 * time.Millisecond},
		{ErrServer, 1, 0, 0.5, 600 * time.Millisecond},
		{ErrServer, 3, 0, 0.5, 2400 * time.Millisecond},
		{ErrServer, 1 << 40, 0, 0.5, 22500 * time.Millisecond},
		{ErrForbidden, 1 << 40, 0, 0.5, 3750 * time.Millisecond},
		{ErrUnknownResource, 1 << 40, 0, 1, 5 * time.Second},
		{ErrServerBehind, 9, 0, 0.5, time.Second},
		{ErrServerBehind, 1, 3 * time.Second, 0, 3 * time.Second},
		{ErrTooManyRequests, 1, 10 * time.Second, 0.5, 10500 * time.Millisecond},
		{ErrTooManyRequests, 10, time.Second, 0.5, 22500 * time.Millisecond},
		{ErrForbidden, 1, 20 * time.Second, 0, 20 * time.Second},
		{ErrServer, 1, 24 * time.Hour, 1, 132 * time.Second},
	} {
		check.Equal(t, b.delay(c.sentinel, c.attempt, c.retryAfter, c.jitter), c.want, "%v, attempt %d, retry after %v, jitter %v", c.sentinel, c.attempt, c.retryAfter, c.jitter)
	}
}

func TestStatusString(t *testing.T) {
	for _, c := range []struct {
		status Status
		want   string
	}{
		{Status{}, "starting (Auto)"},
		{Status{Name: "pods", Phase: Watching, Mode: List, ResourceVersion: "7", Relists: 2}, "pods: watching (List) at 7, 2 relists"},
		{Status{Phase: Listing, Mode: Pages, Listed: 500, Skipped: 1, SkippedErr: ErrMalformed},
			"listing (Pages), 500 listed, 1 skipped (the answer cannot be read)"},
		{Status{Phase: Waiting, Attempts: 3, Err: &Error{Phase: Listing, Sentinel: ErrForbidden, Err: errors.New("no")}},
			"waiting (Auto), failed 3 times: listing: forbidden: no"},
	} {
		check.Equal(t, c.status.String(), c.want)
	}
}

func contentType(enc wire.Encoding) string {
	if enc == wire.JSON {
		return wire.ContentTypeJSON
	}
	return wire.ContentTypeProtobuf
}

func watchContentType(enc wire.Encoding) string {
	if enc == wire.JSON {
		return wire.ContentTypeJSON
	}
	return wire.ContentTypeProtobufWatch
}

func listOf(body io.ReadCloser, enc wire.Encoding) (source.List, error) {
	return source.NewList(answerOf(body, contentType(enc)), source.Options{})
}

func watchOf(body io.ReadCloser, enc wire.Encoding) (source.Watch, error) {
	return source.NewWatch(answerOf(body, watchContentType(enc)), 0, source.Options{})
}

func answerOf(body io.ReadCloser, contentType string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: body}
}
