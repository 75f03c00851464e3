package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// put answers a PUT.
func (s *Server) put(w http.ResponseWriter, r *http.Request, res *servedResource, q objectPath) error {
	o, err := res.fromRequest(w, r)
	if err != nil {
		return err
	}
	if o.GetName() == "" {
		o.SetName(q.name)
	}
	if o.GetName() != q.name {
		return apierrors.NewBadRequest("the name of the object (" + o.GetName() + ") does not match the name on the URL (" + q.name + ")")
	}
	if err := res.checkNamespace(o, q.namespace); err != nil {
		return err
	}
	if res.goType == nil && o.GetResourceVersion() == "" {
		return apierrors.NewInvalid(res.groupKind(), q.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update")})
	}
	raw, err := s.update(res, q, dryRun(r), func(object) (object, error) { return o, nil })
	if err != nil {
		return err
	}
	return res.cache.WriteObject(w, r, http.StatusOK, raw)
}

const modifiedMessage = "the object has been modified; please apply your changes to the latest version and try again"

// update replaces an object by the result of change, and returns its new bytes. change gets a copy.
// A resourceVersion in its result must be the current one; without one the update is unconditional.
func (s *Server) update(res *servedResource, q objectPath, dry bool, change func(object) (object, error)) ([]byte, error) {
	st := res.storage
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unregistered {
		return nil, errUnregistered
	}
	oldRaw, ok, err := st.get(key(q.namespace, q.name))
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case !ok:
		return nil, apierrors.NewNotFound(res.groupResource(), q.name)
	}
	old, err := res.unmarshal(oldRaw)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	o, err := change(old.DeepCopyObject().(object))
	if err != nil {
		return nil, err
	}
	if o, err = s.prepareUpdate(res, q, o, old); err != nil {
		return nil, err
	}
	raw, err := res.marshal(o)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case bytes.Equal(raw, oldRaw): // nothing changed: no event
		return oldRaw, nil
	case dry:
		return raw, nil
	}
	if finalized(o) {
		raw, err = st.remove(raw)
	} else {
		raw, err = st.put(raw)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return raw, s.afterWrite(res, o)
}

// finalized reports whether an object is being deleted and has no finalizers left.
func finalized(o object) bool {
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0
}

// prepareUpdate checks an update and returns the object to store: o with the immutable metadata of
// old, or, for the status subresource, old with the status of o.
func (s *Server) prepareUpdate(res *servedResource, q objectPath, o, old object) (object, error) {
	if o.GetName() != old.GetName() || o.GetNamespace() != old.GetNamespace() {
		return nil, apierrors.NewBadRequest("the name and the namespace of an object cannot be changed")
	}
	if v := o.GetResourceVersion(); v != "" && v != "0" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(res.groupResource(), q.name, errors.New(modifiedMessage))
	}
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewConflict(res.groupResource(), q.name, fmt.Errorf("the uid is %s, not %s", old.GetUID(), uid))
	}
	if q.subresource == "status" {
		copyStatus(old, o)
		return old, s.admit(res, old)
	}
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetGenerateName(old.GetGenerateName())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	if res.Status {
		copyStatus(o, old)
	}
	res.strategy.setGeneration(o, old)
	return o, s.admit(res, o)
}
