package request

import (
	"errors"
	"net/http"
	"net/url"

	"k8s.io/utils/lru"
)

// Request is a parsed request. A server uses the same Request to authorize a request and to serve
// it, so that it cannot serve more than it authorized. A Request is immutable and safe for
// concurrent use. Equal requests may share one Request.
type Request struct {
	Info
	Options
	Accept Accept
}

// ErrNotRead is returned by Parse if the request is not a GET, LIST or WATCH of a resource.
var ErrNotRead = errors.New("the path of the request names no objects to read")

// reads caches parsed requests. Clients repeat the same requests, and parsing a selector may take
// longer than finding the objects that it selects.
var reads = lru.New(maxCachedReads)

const (
	maxCachedReads = 4096
	// MaxCachedBytes is the maximum size of a cached request's URL and Accept header together, in
	// bytes.
	MaxCachedBytes = 1 << 10
)

// readKey contains all inputs from which a Request is parsed. URLs with different escapes have
// different keys.
type readKey struct {
	path, rawPath, query, accept string
	strict                       bool
}

// keyOf returns the key of a request in the cache. ok is false if the request must not be cached.
func keyOf(r *http.Request, strict bool) (key readKey, ok bool) {
	key = readKey{r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.Header.Get("Accept"), strict}
	return key, len(r.Header["Accept"]) < 2 && len(key.path)+len(key.rawPath)+len(key.query)+len(key.accept) <= MaxCachedBytes
}

func cached(key readKey, cacheable bool) (rq *Request, ok bool) {
	if !cacheable {
		return nil, false
	}
	value, ok := reads.Get(key)
	if !ok {
		return nil, false
	}
	return value.(*Request), true
}

// Parse parses a GET or HEAD request for objects, as kube-apiserver does. The error is [ErrNotRead]
// or the Status that kube-apiserver would return.
func Parse(r *http.Request) (*Request, error) {
	key, cacheable := keyOf(r, false)
	if rq, ok := cached(key, cacheable); ok {
		return rq, nil
	}
	rq, err := parse(r, r.URL.Query())
	if err == nil && cacheable {
		reads.Add(key, rq)
	}
	return rq, err
}

func parse(r *http.Request, q url.Values) (*Request, error) {
	info := InfoOf(http.MethodGet, r.URL)
	var options *Options
	var err error
	switch {
	case !info.OfResource:
		err = ErrNotRead
	case info.Verb == "get":
		options, err = parseGetOptions(q)
	case info.Verb == "list", info.Verb == "watch":
		if info.Prefix == "watch" {
			q.Set("watch", "true")
		}
		options, err = ParseOptions(q)
	default:
		err = ErrNotRead
	}
	if err != nil {
		return nil, err
	}
	rq := &Request{Info: *info, Options: *options, Accept: ParseAccept(r.Header)}
	if info.Name == "" {
		rq.setList(options.Watch, nameOf(options.Fields))
	}
	return rq, nil
}

// CachedStrict returns the cached result of [Strict] for an equal request; the result may be nil.
// ok is false if no result is cached. For a method other than GET it returns nil and true.
func CachedStrict(r *http.Request) (rq *Request, ok bool) {
	if r.Method != http.MethodGet {
		return nil, true
	}
	return cached(keyOf(r, true))
}

// Strict parses a GET request. It returns nil unless every server reads the request in the same
// way: the path, the query and the resourceVersion must have the usual spelling. Each parameter
// must be known, occur once, and have a value that kube-apiserver accepts. Strict does not check
// the Accept header; see [Accept.IsStrict].
func Strict(r *http.Request) *Request {
	if rq, ok := CachedStrict(r); ok {
		return rq
	}
	rq := parseStrict(r)
	if key, cacheable := keyOf(r, true); cacheable {
		reads.Add(key, rq)
	}
	return rq
}

// Limits of a strict request's selectors, because it costs much time to match each object against a
// large selector.
const (
	MaxSelector          = 8 << 10 // bytes of a selector's text
	MaxLabelRequirements = 64
	MaxFieldRequirements = 16
)

func parseStrict(r *http.Request) *Request {
	p, ok := ParsePath(r.URL.Path)
	if !ok || !p.isStrict(r.URL) {
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !isStrictQuery(q, p.Name != "") {
		return nil
	}
	rq, err := parse(r, q)
	if err != nil || rq.Watch && !isStrictWatchTimeout(q.Get("timeoutSeconds")) {
		return nil
	}
	if rq.Labels != nil {
		if requirements, _ := rq.Labels.Requirements(); len(requirements) > MaxLabelRequirements {
			return nil
		}
	}
	return rq
}
