package watchcache

import (
	"net/http"

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
	st, err := c.stateNotOlderThan(r.Context(), rv)
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

// WriteObject answers a request with an object of the cache's resource, in the representation that
// the client accepts. It returns an error only if it has written nothing.
func (c *Cache) WriteObject(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	mt, ok := negotiate(r.Header, c.canServe)
	if !ok {
		return errNotAcceptable()
	}
	rep := c.newRepresentation(mt, r.URL.Query().Get("includeObject"))
	if err := rep.checkForm(false); err != nil {
		return err
	}
	object, err := rep.object(raw)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	c.readWrites.bound(w, func() { writeObject(w, mt.enc, code, rep.typeMeta(), object) })
	return nil
}
