package apiserver

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weirproject/weir/internal/core/request"
)

func (s *Server) put(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	o, err := res.fromRequest(w, r)
	if err != nil {
		return err
	}
	if o.GetName() == "" {
		o.SetName(q.Name)
	}
	if err := checkName(o, q); err != nil {
		return err
	}
	if err := res.checkNamespace(o, q.Namespace); err != nil {
		return err
	}
	code, raw, err := s.replaceOrCreate(res, q, dryRun(r), o)
	if err != nil {
		return err
	}
	return res.cache.WriteObject(w, r, code, raw)
}

// checkName returns an error if an object's name differs from the name in the path.
func checkName(o object, q request.Path) error {
	if o.GetName() == q.Name {
		return nil
	}
	return apierrors.NewBadRequest("the name of the object (" + o.GetName() + ") does not match the name on the URL (" + q.Name + ")")
}

// replaceOrCreate replaces an object by o. If the object does not exist and the strategy of its
// kind has putCreates, replaceOrCreate creates it. It returns the HTTP status of the response and
// the stored bytes.
func (s *Server) replaceOrCreate(res *servedResource, q request.Path, dry bool, o object) (int, []byte, error) {
	for {
		raw, err := s.update(res, q, dry, func(object) (object, error) { return copyOf(o), nil })
		if !apierrors.IsNotFound(err) || !res.strategy.putCreates || q.Subresource != "" {
			return http.StatusOK, raw, err
		}
		if uid := o.GetUID(); uid != "" {
			return 0, nil, apierrors.NewConflict(res.groupResource(), q.Name, fmt.Errorf("the uid is %s, but the object does not exist", uid))
		}
		created := copyOf(o)
		created.SetResourceVersion("") // a PUT ignores the version of a missing object
		raw, err = s.insert(res, created, q.Namespace, dry, rand.Reader)
		if !apierrors.IsAlreadyExists(err) { // otherwise another client has created it: update it
			return http.StatusCreated, raw, err
		}
	}
}

const modifiedMessage = "the object has been modified; please apply your changes to the latest version and try again"

// update replaces an object by the result of change, and returns the encoded new version. change
// receives a copy of the object. If the result of change has a resourceVersion, it must be the
// current resourceVersion. If the result has none, the update is unconditional, which some kinds do
// not permit. If the object is being deleted and the result has no finalizers, update deletes the
// object. If dry is true, update stores nothing.
func (s *Server) update(res *servedResource, q request.Path, dry bool, change func(object) (object, error)) ([]byte, error) {
	st := res.storage
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unregistered {
		return nil, errUnregistered
	}
	oldRaw, old, err := res.current(q)
	if err != nil {
		return nil, err
	}
	generation := old.GetGeneration()
	o, err := change(copyOf(old))
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
	case bytes.Equal(raw, oldRaw): // nothing has changed, so watchers receive no event
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
	return raw, s.afterUpdate(res, o, generation)
}

// checkVersion checks the resourceVersion of o, which is an update of old.
func (res *servedResource) checkVersion(q request.Path, o, old object) error {
	switch v := o.GetResourceVersion(); {
	case v == old.GetResourceVersion():
		return nil
	case v != "" && v != "0":
		return apierrors.NewConflict(res.groupResource(), q.Name, errors.New(modifiedMessage))
	case res.strategy.conditional:
		// Like kube-apiserver's error, this error names the resource instead of the kind, and contains
		// the resourceVersion as a number.
		kind := schema.GroupKind{Group: res.Group, Kind: res.GroupVersionResource.Resource}
		return apierrors.NewInvalid(kind, q.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update")})
	}
	return nil
}

// finalized reports whether an object is being deleted and has no finalizers left.
func finalized(o object) bool {
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0
}

// prepareUpdate checks an update and returns the object to store. For an update of the status
// subresource, the result is old with the status of o. For other updates, the result is o with the
// immutable metadata of old. It also has the status of old if the resource has a status
// subresource.
func (s *Server) prepareUpdate(res *servedResource, q request.Path, o, old object) (object, error) {
	if o.GetName() != old.GetName() || o.GetNamespace() != old.GetNamespace() {
		return nil, apierrors.NewBadRequest("the name and the namespace of an object cannot change")
	}
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewConflict(res.groupResource(), q.Name, fmt.Errorf("the uid is %s, not %s", old.GetUID(), uid))
	}
	if err := res.checkVersion(q, o, old); err != nil {
		return nil, err
	}
	if q.Subresource == "status" {
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
