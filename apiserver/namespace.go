package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// checkNamespaceExists returns an error if a new object's namespace does not exist or is being
// deleted, like kube-apiserver's admission plugin NamespaceLifecycle. If a namespace is deleted
// while the object is stored, the object remains.
func (s *Server) checkNamespaceExists(res *servedResource, o object) error {
	namespace := o.GetNamespace()
	if namespace == "" || s.opts.AnyNamespace {
		return nil
	}
	namespaces, ok := s.registry.find(namespacesResource)
	if !ok {
		return nil // New registers the built-in resources in any order
	}
	raw, ok, err := namespaces.storage.get(key("", namespace))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), namespace)
	}
	found, err := namespaces.unmarshal(raw)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if found.GetDeletionTimestamp() != nil {
		return apierrors.NewForbidden(res.groupResource(), o.GetName(),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	}
	return nil
}
