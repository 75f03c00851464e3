package watchcache

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/request"
)

// get answers a GET of one object. It returns an error only if it has written nothing.
func (c *Cache) get(w http.ResponseWriter, r *http.Request, rd *request.Request) error {
	if err := c.ready(); err != nil {
		return err
	}
	st, err := c.stateNotOlderThan(r.Context(), rd.RV)
	if err != nil {
		return err
	}
	key := rd.Name
	if rd.Namespace != "" {
		key = rd.Namespace + "/" + rd.Name
	}
	o, ok := st.sn.Get(key)
	if !ok {
		return apierrors.NewNotFound(c.resource.GroupVersionResource.GroupResource(), rd.Name)
	}
	c.counters.gets.Add(1)
	rep, err := c.representationOfOne(rd.Accept, rd.IncludeObject)
	if err != nil {
		return err
	}
	body, release, err := c.bodies.get(bodyKey{o, rep.representationKey}, payerOf(r.Context()), func() ([]byte, error) {
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
	c.readWrites.bound(w, len(body), func() { writeBody(w, rep.Encoding, http.StatusOK, body) })
	return nil
}

// Accepts returns an error if objects of the cache cannot be served in any representation that the
// client accepts. A server checks this before a write.
func (c *Cache) Accepts(r *http.Request) error {
	a := request.ParseAccept(r.Header)
	if _, ok := a.Negotiate(c.canServe); !ok {
		return errNotAcceptable()
	}
	return nil
}

// WriteObject answers a request with an object of the cache's resource, in the representation that
// the client accepts. It returns an error only if it has written nothing.
func (c *Cache) WriteObject(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	rep, err := c.representationOfOne(request.ParseAccept(r.Header), request.QueryOf(r.URL).Get("includeObject"))
	if err != nil {
		return err
	}
	body, err := rep.body(raw)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	c.readWrites.bound(w, len(body), func() { writeBody(w, rep.Encoding, code, body) })
	return nil
}

// representationOfOne returns the representation of an object that a request accepts.
func (c *Cache) representationOfOne(a request.Accept, includeObject string) (representation, error) {
	mt, ok := a.Negotiate(c.canServe)
	if !ok {
		return representation{}, errNotAcceptable()
	}
	rep := c.newRepresentation(mt, includeObject)
	return rep, rep.checkForm(false)
}

// body returns the body of a response with one object.
func (rep *representation) body(raw []byte) ([]byte, error) {
	object, err := rep.object(raw)
	if err != nil {
		return nil, err
	}
	return appendBody(nil, rep.Encoding, rep.typeMeta(), object), nil
}
