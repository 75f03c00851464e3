package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// deleteOptions reads the body of a DELETE, which may be empty.
func deleteOptions(w http.ResponseWriter, r *http.Request) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	body, err := readBody(w, r)
	if err != nil || len(body) == 0 {
		return o, err
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && mediaType == wire.ContentTypeProtobuf {
		var raw []byte
		if _, raw, err = wire.CutObject(wire.Protobuf, body); err == nil {
			err = o.Unmarshal(raw)
		}
	} else {
		err = json.Unmarshal(body, o)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the delete options: " + err.Error())
	}
	return o, nil
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	options, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	dry := dryRun(r) || len(options.DryRun) > 0
	raw, o, err := s.remove(res, q, options.Preconditions, dry)
	if err != nil {
		return err
	}
	if !finalized(o) {
		return res.cache.WriteObject(w, r, http.StatusOK, raw)
	}
	writeSuccess(w, r, http.StatusOK, &metav1.StatusDetails{
		Name: q.Name, Group: res.Group, Kind: res.GroupVersionResource.Resource, UID: o.GetUID(),
	})
	return nil
}

func writeSuccess(w http.ResponseWriter, r *http.Request, code int, details *metav1.StatusDetails) {
	watchcache.WriteStatus(w, r, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Details: details,
	})
}

// remove deletes an object that has no finalizers. If the object has finalizers, remove only sets
// its deletionTimestamp. In both cases, it returns the object with its deletionTimestamp. If dry is
// true, remove stores nothing.
func (s *Server) remove(res *servedResource, q request.Path, p *metav1.Preconditions, dry bool) (raw []byte, o object, err error) {
	st := res.storage
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unregistered {
		return nil, nil, errUnregistered
	}
	oldRaw, o, err := res.current(q)
	if err != nil {
		return nil, nil, err
	}
	if err := checkPreconditions(res, o, p); err != nil {
		return nil, nil, err
	}
	if o.GetDeletionTimestamp() != nil && !finalized(o) { // set by an earlier request
		return oldRaw, o, nil
	}
	o.SetDeletionTimestamp(new(now()))
	o.SetDeletionGracePeriodSeconds(new(int64(0)))
	if !finalized(o) && o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	if raw, err = res.marshal(o); err == nil && !dry {
		if finalized(o) {
			raw, err = st.remove(oldRaw)
			s.afterDelete(res, o)
		} else {
			raw, err = st.put(raw)
		}
	}
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return raw, o, nil
}

func checkPreconditions(res *servedResource, o object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != o.GetUID() {
		return apierrors.NewConflict(res.groupResource(), o.GetName(), fmt.Errorf("the uid is %s, not %s", o.GetUID(), *p.UID))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(res.groupResource(), o.GetName(), errors.New(modifiedMessage))
	}
	return nil
}

// deleteCollection answers a DELETE of all objects that match a selector.
func (s *Server) deleteCollection(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	options, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	selected, err := request.ParseOptions(r.URL.Query())
	if err != nil {
		return err
	}
	chosen, err := res.cache.Select(q.Namespace, selected)
	if err != nil {
		return err
	}
	for _, o := range chosen {
		at := request.Path{Group: q.Group, Version: q.Version, Resource: q.Resource, Namespace: o.Namespace(), Name: o.Name()}
		_, _, err := s.remove(res, at, options.Preconditions, dryRun(r) || len(options.DryRun) > 0)
		// IsNotFound means that another request has deleted the object since Select.
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	writeSuccess(w, r, http.StatusOK, &metav1.StatusDetails{Group: res.Group, Kind: res.GroupVersionResource.Resource})
	return nil
}
