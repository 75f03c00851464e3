package apiserver

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weirproject/weir/internal/core/request"
)

// validateName validates the name of a new object by kube-apiserver's rules for the kind.
func (res *servedResource) validateName(o object) (errs field.ErrorList) {
	path := field.NewPath("metadata", "name")
	for _, problem := range nameProblems(res.groupKind().String(), o) {
		errs = append(errs, field.Invalid(path, o.GetName(), problem))
	}
	return errs
}

// maxCronJobName is the maximum length of the name of a CronJob. It is lower than the limit for
// other kinds, because the name of each of the CronJob's Jobs is this name and a suffix.
const maxCronJobName = 52

// nameProblems returns a text for each way in which an object's name is invalid. The name must be a
// DNS subdomain, except for the kinds in the switch. Some of these kinds only require a valid path
// segment.
func nameProblems(kind string, o object) []string {
	name := o.GetName()
	switch kind {
	case "Namespace", "Service", "StatefulSet.apps":
		return validation.IsDNS1123Label(name)
	case "Event", "CertificateSigningRequest.certificates.k8s.io", "PodDisruptionBudget.policy",
		"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
		"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		return request.IsPathSegmentName(name)
	case "IPAddress.networking.k8s.io":
		var problems []string
		for _, err := range validation.IsValidIP(nil, name) {
			problems = append(problems, err.Detail)
		}
		return problems
	case "ClusterTrustBundle.certificates.k8s.io":
		return bundleNameProblems(name, signerName(o))
	case "CronJob.batch":
		problems := validation.IsDNS1123Subdomain(name)
		if len(name) > maxCronJobName {
			problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxCronJobName))
		}
		return problems
	}
	return validation.IsDNS1123Subdomain(name)
}

// bundleNameProblems returns a text for each way in which the name of a ClusterTrustBundle is
// invalid. If the bundle has a signer, its name must start with the signer's name.
func bundleNameProblems(name, signer string) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return validation.IsDNS1123Subdomain(name)
	}
	prefix := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)}
	}
	return validation.IsDNS1123Subdomain(rest)
}

// signerName returns spec.signerName. It uses reflection, because the oldest supported k8s.io/api
// has no type for ClusterTrustBundles.
func signerName(o object) string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "signerName") // not a string: no signer
		return name
	}
	return reflect.ValueOf(o).Elem().FieldByName("Spec").FieldByName("SignerName").String()
}

// checkNamespaceExists returns an error if a new object's namespace does not exist or is being
// deleted, like kube-apiserver's admission plugin NamespaceLifecycle. It does not lock the
// namespace: if a client deletes the namespace before the server stores the object, the object
// remains although its namespace does not exist.
func (s *Server) checkNamespaceExists(res *servedResource, o object) error {
	namespace := o.GetNamespace()
	if namespace == "" || s.opts.AnyNamespace {
		return nil
	}
	namespaces, ok := s.registry.find(namespacesResource)
	if !ok {
		return nil // cannot happen: New registers namespaces before it creates objects
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
