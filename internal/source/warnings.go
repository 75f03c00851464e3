package source

import (
	"context"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// warningHandler hands the warnings of answers to the handler that a rest.Config names, or else to
// client-go's default one.
type warningHandler struct {
	handler     rest.WarningHandler
	withContext rest.WarningHandlerWithContext // preferred, as in client-go
}

// handle reads the Warning headers of an answer. Like client-go, it drops what follows a malformed
// one.
func (w warningHandler) handle(ctx context.Context, server *url.URL, header http.Header) {
	values := header["Warning"]
	if len(values) == 0 {
		return
	}
	if w.handler == nil && w.withContext == nil {
		handleByDefault(ctx, server, values)
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(values)
	for _, text := range warnings {
		if w.withContext != nil {
			w.withContext.HandleWarningHeaderWithContext(ctx, text.Code, text.Agent, text.Text)
		} else {
			w.handler.HandleWarningHeader(text.Code, text.Agent, text.Text)
		}
	}
}

// handleByDefault hands warnings to the handler that rest.SetDefaultWarningHandler has set, which
// only requests of client-go's know. So one of these gets an answer that has the warnings and
// nothing else. client-go counts it in its metrics, as it would have counted the source's request.
func handleByDefault(ctx context.Context, server *url.URL, values []string) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Warning": values}, Body: http.NoBody}
	client := &http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		answer.Request = r
		return answer, nil
	})}
	body, err := rest.NewRequestWithClient(server, "", rest.ClientContentConfig{}, client).Verb(http.MethodGet).Stream(ctx)
	if err == nil { // it is not nil if ctx has ended
		_ = body.Close()
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
