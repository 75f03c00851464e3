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
	rep, err := c.representationOfOne(r)
	if err != nil {
		return err
	}
	body, release, err := c.bodies.get(bodyKey{o, rep.key()}, payerOf(r.Context()), func() ([]byte, error) {
		raw, err := o.AppendRaw(nil)
		if err == nil {
			raw, err = rep.body(raw)
		}
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return raw, nil
	})
	if err != nil {
		return err
	}
	defer release()
	c.readWrites.bound(w, len(body), func() { writeBody(w, rep.enc, http.StatusOK, body) })
	return nil
}

// WriteObject answers a request with an object of the cache's resource, in the representation that
// the client accepts. It returns an error only if it has written nothing.
func (c *Cache) WriteObject(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	rep, err := c.representationOfOne(r)
	if err != nil {
		return err
	}
	body, err := rep.body(raw)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	c.readWrites.bound(w, len(body), func() { writeBody(w, rep.enc, code, body) })
	return nil
}

// representationOfOne returns the representation of an object that a request accepts.
func (c *Cache) representationOfOne(r *http.Request) (representation, error) {
	mt, ok := negotiate(r.Header, c.canServe)
	if !ok {
		return representation{}, errNotAcceptable()
	}
	rep := c.newRepresentation(mt, r.URL.Query().Get("includeObject"))
	return rep, rep.checkForm(false)
}

// body returns the body of a response with one object.
func (rep *representation) body(raw []byte) ([]byte, error) {
	object, err := rep.object(raw)
	if err != nil {
		return nil, err
	}
	return appendBody(nil, rep.enc, rep.typeMeta(), object), nil
}
