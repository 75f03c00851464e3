package request

import (
	"iter"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
)

// IsPathSegmentName returns why a name cannot be a segment of a URL's path, or nothing.
//
//lint:ignore SA1019 the oldest supported apimachinery lacks its replacement
var IsPathSegmentName = path.IsValidPathSegmentName

// Query is the raw query of a URL. Each method looks up one parameter as kube-apiserver reads it,
// and does not parse the other parameters. So a server can look up a parameter at little cost
// before it admits the request, even if a client sends thousands of parameters.
type Query string

// QueryOf returns the query of a URL.
func QueryOf(u *url.URL) Query { return Query(u.RawQuery) }

// All yields the values of a parameter, in the same order as in url.Values. It omits malformed
// pairs. name must not contain a byte that needs an escape.
func (q Query) All(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := string(q); rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			key, escaped, _ := strings.Cut(pair, "=")
			if !unescapesTo(key, name) || strings.Contains(pair, ";") {
				continue
			}
			if value, err := url.QueryUnescape(escaped); err == nil && !yield(value) {
				return
			}
		}
	}
}

// Lookup returns the first value of a parameter, as url.Values.Get does. ok reports whether the
// query has the parameter.
func (q Query) Lookup(name string) (value string, ok bool) {
	for value := range q.All(name) {
		return value, true
	}
	return "", false
}

// Get returns the first value of a parameter, or "".
func (q Query) Get(name string) string {
	value, _ := q.Lookup(name)
	return value
}

// Flag returns the value of a boolean parameter. As in kube-apiserver, it is true if the query has
// the parameter and the first value is neither "false" nor "0".
func (q Query) Flag(name string) bool {
	value, ok := q.Lookup(name)
	return ok && value != "0" && !strings.EqualFold(value, "false")
}

// unescapesTo reports whether key, the key of a query parameter, equals name after its escapes are
// decoded. Any bytes of key may be escaped.
func unescapesTo(key, name string) bool {
	if len(key) <= len(name) || len(key) > len("%xx")*len(name) {
		return key == name
	}
	unescaped, err := url.QueryUnescape(key)
	return err == nil && unescaped == name
}

// maxInfoSelector is the maximum size of a field selector that selectedName parses completely, in
// bytes. Of a longer selector it parses only the term for metadata.name.
const maxInfoSelector = 256

// selectedName returns the name that the field selector requires, or "".
func (q Query) selectedName() string {
	text := q.Get("fieldSelector")
	if len(text) > maxInfoSelector {
		text = nameTerm(text)
	}
	s, err := fields.ParseSelector(text)
	if err != nil {
		return ""
	}
	return nameOf(s)
}

// nameOf returns the object name that a field selector requires, or "". kube-apiserver passes that
// name to its authorizers. s may be nil.
func nameOf(s fields.Selector) string {
	if s == nil {
		return ""
	}
	name, ok := s.RequiresExactMatch("metadata.name")
	if !ok || len(IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

// nameTerm returns the term of a field selector that starts with metadata.name=, or "". A term ends
// at the first comma that no backslash escapes.
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
