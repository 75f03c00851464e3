package source

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// listClient is the client that LISTs go through: HTTP/1.1, on a connection of their own that ends
// with the LIST. HTTP/2 cuts a body into frames of 16 KB, hands each from one goroutine to another
// and answers it with window updates of its own: for the LIST of 50,000 pods that is an eighth of
// all CPU here and a quarter of the time. WATCHes are many, long and mostly silent; they share one
// HTTP/2 connection.
//
// It is shared itself where that makes no difference or cannot be chosen: without TLS, with a
// transport of the caller's, or where the caller has named protocols.
func listClient(cfg *rest.Config, base *url.URL, shared *http.Client) (*http.Client, error) {
	if base.Scheme != "https" || cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		return shared, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	return rest.HTTPClientFor(cfg)
}

// refusesHTTP1 reports whether a server ended the TLS handshake because it speaks nothing but
// HTTP/2. The alert has no type that could be asked for.
func refusesHTTP1(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no application protocol")
}
