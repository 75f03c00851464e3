package source

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// listClient returns the HTTP client for LISTs. It uses HTTP/1.1, on connections apart from those
// of WATCHes. HTTP/2 cuts a body into frames of 16 KB, passes each from one goroutine to another,
// and answers it with a window update. For a LIST of 50,000 pods that costs an eighth of the
// client's CPU and a quarter of the time. WATCHes are many, long and mostly silent, so they share
// one HTTP/2 connection.
//
// It returns client where another client makes no difference or is not allowed: without TLS, with a
// transport of the caller's, or where the caller has named protocols.
func listClient(cfg *rest.Config, base *url.URL, client *http.Client) (*http.Client, error) {
	if base.Scheme != "https" || cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		return client, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	return HTTPClient(cfg)
}

// refusesHTTP1 reports whether err says that the server ended the TLS handshake because it speaks
// only HTTP/2. The alert has no type, so its text is matched.
func refusesHTTP1(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no application protocol")
}
