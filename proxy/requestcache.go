package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/lru"
)

// requestCache caches the parsed URLs of GETs. Clients repeat them, and parsing a selector, which
// the libraries do three times, takes longer than finding what it selects. It is safe for
// concurrent use.
type requestCache struct {
	parsed *lru.Cache // requestKey to parsedRequest
}

const (
	maxCachedRequests = 4096
	// maxCachedURL bounds a cached URL, in bytes.
	maxCachedURL = 1 << 10
)

// requestKey is a URL as sent. URLs with different escapes are different.
type requestKey struct{ path, raw, query string }

// parsedRequest is a parsed request. Requests with the same URL share it; it is immutable.
type parsedRequest struct {
	info *request.RequestInfo // for metrics, limits and the audit, never for permissions
	read *readRequest         // nil: the proxy may not answer it
}

func newRequestCache() *requestCache { return &requestCache{parsed: lru.New(maxCachedRequests)} }

// lookup returns what is known of a request without parsing its selectors. It reports whether that
// is complete; if not, only info is set.
func (rc *requestCache) lookup(r *http.Request) (pr parsedRequest, complete bool) {
	if r.Method != http.MethodGet {
		return parsedRequest{info: requestInfoOf(r.Method, r.URL)}, true
	}
	if pr, complete = rc.get(requestKeyOf(r.URL)); complete {
		return pr.forRequest(r), true
	}
	return parsedRequest{info: requestInfoOf(r.Method, r.URL)}, false
}

// parse parses the rest of a request, and caches the result.
func (rc *requestCache) parse(r *http.Request, pr parsedRequest) parsedRequest {
	at := requestKeyOf(r.URL)
	pr.read = parseRead(r.URL)
	if len(at.path)+len(at.raw)+len(at.query) <= maxCachedURL {
		rc.parsed.Add(at, pr)
	}
	return pr.forRequest(r)
}

// detachURL gives a request with a long target a URL whose parts do not keep all of that, wherever
// they are kept. The host of an absolute one may have any length.
func detachURL(r *http.Request) {
	if len(r.RequestURI) <= maxCachedURL {
		return
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = strings.Clone(u.Path), strings.Clone(u.RawPath), strings.Clone(u.RawQuery)
	r.URL = &u
}

func requestKeyOf(at *url.URL) requestKey { return requestKey{at.Path, at.RawPath, at.RawQuery} }

// forRequest returns the parsedRequest for one request, whose headers may rule out that the proxy
// answers it. One with an Origin comes from a page in a browser, which may read the answer if the
// CORS headers allow that, and only the upstream knows those.
func (pr parsedRequest) forRequest(r *http.Request) parsedRequest {
	if hasImpersonation(r.Header) || r.Header.Get("Upgrade") != "" || r.Header.Get("Origin") != "" || pr.info.Verb != "watch" && ofTerminal(r) && !strings.Contains(r.Header.Get("Accept"), "protobuf") {
		pr.read = nil
	}
	return pr
}

// ofTerminal reports whether a request is of a program at a terminal, for which kube-apiserver
// indents JSON, and nothing else. It does so for browsers as well, whose dashboards need no
// indents. Whether a response is JSON where a request accepts protobuf too, session.canServe finds
// out.
func ofTerminal(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget")
}

func (rc *requestCache) get(at requestKey) (parsedRequest, bool) {
	a, ok := rc.parsed.Get(at)
	if !ok {
		return parsedRequest{}, false
	}
	return a.(parsedRequest), true
}

var requestInfoFactory = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// maxInfoSelector bounds the field selector that is parsed whole for a request's info, in bytes. Of
// a longer one only the term that names the object is.
const maxInfoSelector = 256

// nameTerm returns the term of a field selector from which RequestInfo takes the object's name, or
// nothing. Terms end at a comma that no backslash stands before.
func nameTerm(selector string) string {
	for selector != "" {
		end := 0
		for ; end < len(selector) && selector[end] != ','; end++ {
			if selector[end] == '\\' {
				end++
			}
		}
		end = min(end, len(selector))
		if strings.HasPrefix(selector, "metadata.name=") {
			return selector[:end]
		}
		selector = strings.TrimPrefix(selector[end:], ",")
	}
	return ""
}

// requestInfoOf returns the RequestInfo of a request. A path that is not understood names no
// resource. It leaves out most of the query, because the library parses every selector.
func requestInfoOf(method string, at *url.URL) *request.RequestInfo {
	bare := &url.URL{Path: at.Path, RawPath: at.RawPath}
	if at.RawQuery != "" {
		few := url.Values{}
		if watch, ok := firstParam(at.RawQuery, "watch"); ok {
			few.Set("watch", watch)
		}
		selector, _ := firstParam(at.RawQuery, "fieldSelector")
		if len(selector) > maxInfoSelector {
			selector = nameTerm(selector)
		}
		if _, err := fields.ParseSelector(selector); err == nil { // or else the library logs the query
			few.Set("fieldSelector", selector)
		}
		bare.RawQuery = few.Encode()
	}
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: method, URL: bare})
	if err != nil {
		return &request.RequestInfo{Path: at.Path, Verb: strings.ToLower(method)}
	}
	info.Parts = nil // they take more than the path, for as long as the request lasts
	return info
}
