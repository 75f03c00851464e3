package proxy

import (
	"iter"
	"net/url"
	"strings"
)

// params returns the values of one parameter of a query, as url.Values has them, and parses no
// other. So a query of up to maxParams costs little before its request is admitted. name has
// nothing to escape.
func params(query, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := query; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			key, escaped, _ := strings.Cut(pair, "=")
			if !standsFor(key, name) || strings.Contains(pair, ";") {
				continue
			}
			if value, err := url.QueryUnescape(escaped); err == nil && !yield(value) {
				return
			}
		}
	}
}

// firstParam returns the first of params, as url.Values.Get does, and whether there is one.
func firstParam(query, name string) (value string, ok bool) {
	for value := range params(query, name) {
		return value, true
	}
	return "", false
}

// standsFor reports whether a key of a query is a name, which may have each byte escaped.
func standsFor(key, name string) bool {
	if len(key) <= len(name) || len(key) > len("%xx")*len(name) {
		return key == name
	}
	unescaped, err := url.QueryUnescape(key)
	return err == nil && unescaped == name
}
