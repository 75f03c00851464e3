package clientgo

import (
	"net/http"
	"strings"
)

// requestScope is what a request asks for of its resource.
type requestScope struct {
	namespace string // "" is all
	selector  string // of labels and of fields; "" is everything
}

// scopeOf returns the scope of a request whose path is that of a collection.
func scopeOf(req *http.Request) *requestScope {
	s := &requestScope{}
	if match := listPath.FindStringSubmatch(req.URL.Path); match != nil {
		s.namespace = match[3]
	}
	query := req.URL.Query()
	s.selector = strings.TrimSpace(query.Get("labelSelector") + " " + query.Get("fieldSelector"))
	return s
}

// Scope returns what the last captured request asked for. A ListerWatcher does not tell, so nothing
// is known before the first one, nor where the ListerWatcher's own results count.
func (l *listWatch) Scope() (namespace, selector string, ok bool) {
	s := l.scope.Load()
	if s == nil || l.noCapture.Load() {
		return "", "", false
	}
	return s.namespace, s.selector, true
}
