package watchcache

import (
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/store"
)

// Select returns the newest objects that the selectors of a query choose, for a server that deletes a collection. namespace empty: all
// of them.
func (c *Cache) Select(namespace string, query url.Values) ([]*store.Object, error) {
	p, err := parseParams(query)
	if err != nil {
		return nil, err
	}
	s, err := c.newSelector(namespace, "", p)
	if err != nil {
		return nil, err
	}
	var out []*store.Object
	pl := c.plan(c.current(), s)
	m := &matcher{selector: pl.rest, cache: c}
	for o := range pl.walk("") {
		ok, err := m.match(o)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if ok {
			out = append(out, o)
		}
	}
	return out, nil
}
