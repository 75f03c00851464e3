package proxy

import (
	"net/http"
	"net/url"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/lru"
)

// urls remembers what the URLs of GETs ask for: clients ask the same again and again, and to read a selector, three times over as the
// libraries do it, takes longer than to find what it selects. Safe for concurrent use.
type urls struct {
	known *lru.Cache // address to ask
}

const (
	maxURLs = 4096
	// maxURL is how long a URL may be to be remembered, in bytes.
	maxURL = 1 << 10
)

// address is a URL as it was written: two that differ in their escapes ask for different things.
type address struct{ path, raw, query string }

// ask is what a request asks for. It is shared by the requests that ask for the same, and nobody may change it.
type ask struct {
	info *request.RequestInfo // for metrics and limits; no permission depends on it
	read *read                // nil: nothing that may be answered from here
}

func newURLs() *urls { return &urls{known: lru.New(maxURLs)} }

// look returns what is known of a request without reading its selectors. It reports whether that is all there is; if not, only info is set.
func (u *urls) look(r *http.Request) (a ask, all bool) {
	if r.Method != http.MethodGet {
		return ask{info: infoOf(r.Method, r.URL)}, true
	}
	if a, all = u.get(addressOf(r.URL)); all {
		return a.without(r), true
	}
	return ask{info: infoOf(r.Method, r.URL)}, false
}

// read reads what look did not know, and remembers it.
func (u *urls) read(r *http.Request, a ask) ask {
	at := addressOf(r.URL)
	a.read = readOf(r.URL)
	if len(at.path)+len(at.raw)+len(at.query) <= maxURL {
		u.known.Add(at, a)
	}
	return a.without(r)
}

func addressOf(at *url.URL) address { return address{at.Path, at.RawPath, at.RawQuery} }

// without returns the ask of one request, which may have headers by which it is no read.
func (a ask) without(r *http.Request) ask {
	if impersonates(r.Header) || r.Header.Get("Upgrade") != "" {
		a.read = nil
	}
	return a
}

func (u *urls) get(at address) (ask, bool) {
	a, ok := u.known.Get(at)
	if !ok {
		return ask{}, false
	}
	return a.(ask), true
}
