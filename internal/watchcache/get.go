package watchcache

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ServeGet answers a GET of one object. namespace is empty for cluster-scoped resources.
func (c *Cache) ServeGet(w http.ResponseWriter, r *http.Request, namespace, name string) {
	if err := c.get(w, r, namespace, name); err != nil {
		WriteError(w, r, err)
	}
}

func (c *Cache) get(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	if err := c.ready(); err != nil {
		return err
	}
	rv, err := parseVersionParam(r.URL.Query().Get("resourceVersion")) // a GET has no other parameter
	if err != nil {
		return err
	}
	st, err := c.notOlderThan(r.Context(), rv)
	if err != nil {
		return err
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	o, ok := st.sn.Get(key)
	if !ok {
		return apierrors.NewNotFound(c.resource.GroupVersionResource.GroupResource(), name)
	}
	c.counters.gets.Add(1)
	raw, err := o.AppendRaw(nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return c.WriteObject(w, r, http.StatusOK, raw)
}

// WriteObject answers a request with an object of the cache's resource, in what the client asked for. An error is returned only
// when nothing was answered.
func (c *Cache) WriteObject(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	a, ok := negotiate(r.Header, c.can)
	if !ok {
		return errNotAcceptable()
	}
	f := c.newForm(a, r.URL.Query().Get("includeObject"))
	object, err := f.object(raw)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	WriteObject(w, a.enc, code, f.typeMeta(), object)
	return nil
}

// WantsTable reports whether an Accept header names a Table, in whatever spelling.
func WantsTable(h http.Header) bool {
	return slices.ContainsFunc(choicesIn(h), func(c choice) bool { return c.shape == table })
}

// Accepts says whether objects of the cache can be served to the client at all, so that a write can be refused before it is done.
func (c *Cache) Accepts(r *http.Request) error {
	if _, ok := negotiate(r.Header, c.can); !ok {
		return errNotAcceptable()
	}
	return nil
}
