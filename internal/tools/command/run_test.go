package command

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestReport checks that Report writes one line per error and returns the right exit code. It
// checks that Report writes nothing for an ExitCode, whose program has already reported the error.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("no\nanswer"), 1, "error: no; answer\n"},
		{fmt.Errorf("watch: %w", Usagef("no resource")), 2, "error: watch: no resource\n"},
		{ExitCode(7), 7, ""},
	} {
		var says strings.Builder
		if code := Report(&says, c.err); code != c.code || says.String() != c.says {
			t.Errorf("%v: exit code %d and %q, want %d and %q", c.err, code, says.String(), c.code, c.says)
		}
	}
}

func TestExplain(t *testing.T) {
	pods, page := schema.GroupResource{Resource: "pods"}, "<html><head><title>No</title></head></html>"
	for want, err := range map[string]error{
		`forbidden: pods is forbidden: no`:                                            fmt.Errorf("pods: listing: %w", apierrors.NewForbidden(pods, "", errors.New("no"))),
		`the server does not accept the credentials: who?`:                            fmt.Errorf("x: %w", apierrors.NewUnauthorized("who?")),
		`the server answered: field label not supported`:                              apierrors.NewBadRequest("field label not supported"),
		`no answer from the server at https://h:1: dial`:                              fmt.Errorf("x: %w", &url.Error{Op: "Get", URL: "https://h:1/api?x=y", Err: errors.New("dial")}),
		`the server cannot be reached: EOF`:                                           fmt.Errorf("pods: %w", &reflector.Error{Sentinel: weir.ErrUnreachable, Err: io.EOF}),
		`the answer cannot be read`:                                                   &reflector.Error{Sentinel: weir.ErrMalformed},
		`something else`:                                                              errors.New("something else"),
		`the server asks to retry later (too many requests), Retry-After 3 s`:         fmt.Errorf("x: %w", apierrors.NewTooManyRequests("Too many requests, please try again later.", 3)),
		`the server asks to retry later (too many requests): starting`:                apierrors.NewTooManyRequests("starting", 0),
		`forbidden: 403 with an HTML page with the title "No"`:                        apierrors.NewGenericServerResponse(403, "GET", pods, "", page, 0, true),
		`the server answered: 503 with an HTML page with the title "No"`:              apierrors.NewGenericServerResponse(503, "GET", pods, "", page, 0, true),
		`the server's response cannot be read: it is an HTML page`:                    fmt.Errorf("GET /api: %w", &wire.SyntaxError{What: "it is an HTML page", Err: wire.ErrMalformed}),
		`the credential plugin aws-iam, which the kubeconfig names, is not installed`: &url.Error{Op: "Get", URL: "https://h:1", Err: errors.New("getting credentials: exec: executable aws-iam not found\n\nIt looks")},
	} {
		if got := Explain(err); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if Explain(nil) != nil {
		t.Error("an error came of nothing")
	}
}

func TestOneLine(t *testing.T) {
	check.Equal(t, OneLine(errors.New("a\n\tb  c\n")), "a; b c")
	check.Equal(t, OneLine(errors.New("a \x1b[2J\u009b2J \u202eb\xff")), "a ?[2J?2J ?b\ufffd", "what moves a cursor")
}
