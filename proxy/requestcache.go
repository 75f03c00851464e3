package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/lru"
)

// requestCache remembers what the URLs of GETs ask for: clients ask the same again and again, and
// to read a selector, three times over as the libraries do it, takes longer than to find what it
// selects. Safe for concurrent use.
type requestCache struct {
	parsed *lru.Cache // address to ask
}

const (
	maxCachedRequests = 4096
	// maxCachedURL is how long a URL may be to be remembered, in bytes.
	maxCachedURL = 1 << 10
)

// requestKey is a URL as it was written: two that differ in their escapes ask for different things.
type requestKey struct{ path, raw, query string }

// parsedRequest is what a request asks for. It is shared by the requests that ask for the same, and
// nobody may change it.
type parsedRequest struct {
	info *request.RequestInfo // for metrics and limits; no permission depends on it
	read *readRequest         // nil: nothing that may be answered from here
}

func newRequestCache() *requestCache { return &requestCache{parsed: lru.New(maxCachedRequests)} }

// lookup returns what is known of a request without reading its selectors. It reports whether that
// is all there is; if not, only info is set.
func (rc *requestCache) lookup(r *http.Request) (pr parsedRequest, all bool) {
	if r.Method != http.MethodGet {
		return parsedRequest{info: requestInfoOf(r.Method, r.URL)}, true
	}
	if pr, all = rc.get(requestKeyOf(r.URL)); all {
		return pr.forRequest(r), true
	}
	return parsedRequest{info: requestInfoOf(r.Method, r.URL)}, false
}

// parse reads what look did not know, and remembers it.
func (rc *requestCache) parse(r *http.Request, pr parsedRequest) parsedRequest {
	at := requestKeyOf(r.URL)
	pr.read = parseRead(r.URL)
	if len(at.path)+len(at.raw)+len(at.query) <= maxCachedURL {
		rc.parsed.Add(at, pr)
	}
	return pr.forRequest(r)
}

func requestKeyOf(at *url.URL) requestKey { return requestKey{at.Path, at.RawPath, at.RawQuery} }

// forRequest returns the ask of one request, which may have headers by which it is no read.
func (pr parsedRequest) forRequest(r *http.Request) parsedRequest {
	if hasImpersonation(r.Header) || r.Header.Get("Upgrade") != "" {
		pr.read = nil
	}
	return pr
}

func (rc *requestCache) get(at requestKey) (parsedRequest, bool) {
	a, ok := rc.parsed.Get(at)
	if !ok {
		return parsedRequest{}, false
	}
	return a.(parsedRequest), true
}

var requestInfoFactory = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// maxInfoSelector bounds the field selector of which a request's info has the name, in bytes.
const maxInfoSelector = 256

// requestInfoOf returns what a request is about. One whose path says nothing that is understood is
// about no resource. Of the query it reads no more than it needs: the library reads every selector.
func requestInfoOf(method string, at *url.URL) *request.RequestInfo {
	bare := &url.URL{Path: at.Path, RawPath: at.RawPath}
	if at.RawQuery != "" {
		all, few := at.Query(), url.Values{}
		if all.Has("watch") {
			few.Set("watch", all.Get("watch"))
		}
		if fields := all.Get("fieldSelector"); len(fields) <= maxInfoSelector {
			few.Set("fieldSelector", fields)
		}
		bare.RawQuery = few.Encode()
	}
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: method, URL: bare})
	if err != nil {
		return &request.RequestInfo{Path: at.Path, Verb: strings.ToLower(method)}
	}
	return info
}
