package watchcache

import (
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Query holds the parameters of a LIST or a WATCH, read once. A server that asks whether its caller may make a request, and then
// answers it, does both by one Query. It is immutable and safe for concurrent use.
type Query struct{ params *params }

// ParseQuery reads the parameters as kube-apiserver does. The error is the Status that kube-apiserver would answer with.
func ParseQuery(q url.Values) (Query, error) {
	p, err := parseParams(q)
	return Query{p}, err
}

// Watch reports whether the query asks for a WATCH rather than a LIST.
func (q Query) Watch() bool { return q.params.watch }

// Labels returns the label selector, nil for everything.
func (q Query) Labels() labels.Selector { return q.params.labels }

// Fields returns the field selector, nil for everything.
func (q Query) Fields() fields.Selector { return q.params.fields }

// ServeQuery is [Cache.ServeList] for a query that was read before. It does not look at the URL of the request.
func (c *Cache) ServeQuery(w http.ResponseWriter, r *http.Request, q Query, namespace, name string) {
	if err := c.serveQuery(w, r, q.params, namespace, name); err != nil {
		c.counters.failed(err)
		WriteError(w, r, err)
	}
}
