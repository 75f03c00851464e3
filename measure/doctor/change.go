package doctor

import (
	"cmp"
	"fmt"
	"strings"
)

// gvr returns the Go expression of the resource's GroupVersionResource.
func (a api) gvr() string {
	version := "version" // unknown
	if a.version != "" {
		version = fmt.Sprintf("%q", a.version)
	}
	return fmt.Sprintf("schema.GroupVersionResource{Group: %q, Version: %s, Resource: %q}", a.group, version, a.resource)
}

// client returns the Go expression of client-go's client for the resource in all namespaces.
func (a api) client() string {
	if a.method == "" {
		return fmt.Sprintf("client.Resource(%s)", a.gvr())
	}
	namespaces := `""`
	if a.cluster {
		namespaces = ""
	}
	return fmt.Sprintf("client.%s%s().%s(%s)", a.clientGroup(), title(a.version), a.method, namespaces)
}

// informer returns the Go expression for the resource in a client-go informer factory. Its value
// has the methods Informer and Lister.
func (a api) informer() string {
	if a.method == "" {
		return fmt.Sprintf("factory.ForResource(%s)", a.gvr())
	}
	return fmt.Sprintf("factory.%s().%s().%s()", a.clientGroup(), title(a.version), a.method)
}

// lister returns the Go expression that calls a method of an informer's lister. If the resource has
// namespaces, the method is that of the lister of one namespace.
func (a api) lister(call string) string {
	of := ""
	if a.method == "" {
		of = ".ByNamespace(namespace)"
	} else if !a.cluster {
		of = fmt.Sprintf(".%s(namespace)", a.method)
	}
	return a.informer() + ".Lister()" + of + "." + call
}

// kubectl returns the command that gets all objects of the resource, in all namespaces.
func (a api) kubectl() string {
	name := strings.TrimSuffix(a.resource+"."+a.group, ".")
	if a.cluster {
		return "kubectl get " + name
	}
	return "kubectl get " + name + " --all-namespaces"
}

// watchOnce returns a kubectl command that WATCHes the resource, to replace a command in a loop.
func watchOnce(a api) string {
	return a.kubectl() + " --watch # once, instead of repeated requests"
}

// methods lists client-go's methods for the resources of each group. Here, a dot follows the method
// of a resource without namespaces.
var methods = map[string]string{
	"": "ComponentStatuses. ConfigMaps Endpoints Events LimitRanges Namespaces. Nodes. " +
		"PersistentVolumeClaims PersistentVolumes. PodTemplates Pods ReplicationControllers " +
		"ResourceQuotas Secrets ServiceAccounts Services",
	"admissionregistration.k8s.io": "MutatingAdmissionPolicies. MutatingAdmissionPolicyBindings. " +
		"MutatingWebhookConfigurations. ValidatingAdmissionPolicies. " +
		"ValidatingAdmissionPolicyBindings. ValidatingWebhookConfigurations.",
	"apps":                         "ControllerRevisions DaemonSets Deployments ReplicaSets StatefulSets",
	"autoscaling":                  "HorizontalPodAutoscalers",
	"batch":                        "CronJobs Jobs",
	"certificates.k8s.io":          "CertificateSigningRequests. ClusterTrustBundles. PodCertificateRequests",
	"coordination.k8s.io":          "LeaseCandidates Leases",
	"discovery.k8s.io":             "EndpointSlices",
	"events.k8s.io":                "Events",
	"flowcontrol.apiserver.k8s.io": "FlowSchemas. PriorityLevelConfigurations.",
	"internal.apiserver.k8s.io":    "StorageVersions.",
	"lifecycle.k8s.io":             "EvictionRequests Evictions",
	"networking.k8s.io":            "IPAddresses. IngressClasses. Ingresses NetworkPolicies ServiceCIDRs.",
	"node.k8s.io":                  "RuntimeClasses.",
	"policy":                       "PodDisruptionBudgets",
	"rbac.authorization.k8s.io":    "ClusterRoleBindings. ClusterRoles. RoleBindings Roles",
	"resource.k8s.io": "DeviceClasses. DeviceTaintRules. ResourceClaimTemplates ResourceClaims " +
		"ResourcePoolStatusRequests. ResourceSlices.",
	"scheduling.k8s.io": "CompositePodGroups PodGroups PriorityClasses. Workloads",
	"storage.k8s.io": "CSIDrivers. CSINodes. CSIStorageCapacities StorageClasses. " +
		"VolumeAttachments. VolumeAttributesClasses.",
	"storagemigration.k8s.io": "StorageVersionMigrations.",
}

// api describes how Go code names a resource.
type api struct {
	group, version, resource string
	// method is client-go's method for the resource. It is empty for custom resources.
	method  string
	cluster bool // the resource has no namespaces
}

// apiOf returns the api of a resource. name is kubectl's name of the resource, and version is the
// version that a client asked for.
func apiOf(name, version string) api {
	name, _, _ = strings.Cut(name, "/")
	a := api{version: version}
	a.resource, a.group, _ = strings.Cut(name, ".")
	for method := range strings.FieldsSeq(methods[a.group]) {
		method, cluster := strings.CutSuffix(method, ".")
		if strings.EqualFold(method, a.resource) {
			a.method, a.cluster = method, cluster
		}
	}
	if a.method != "" && a.version == "" {
		a.version = "v1"
	}
	return a
}

// title returns a word with its first letter in upper case. The word must not be empty.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// clientGroup returns client-go's name of the group.
func (a api) clientGroup() string {
	first, _, _ := strings.Cut(a.group, ".")
	return title(cmp.Or(first, "core"))
}
