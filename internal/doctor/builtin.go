package doctor

import (
	"strings"
	"unicode"
)

// The methods that client-go has for the resources of each group. Those of resources without a
// namespace end in a dot.
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

// api names a resource as Go code asks for it.
type api struct {
	group, version, resource string
	// method is client-go's for the resource. It is empty where there is none, as for custom
	// resources.
	method  string
	cluster bool // it has no namespaces
}

// apiOf returns the resource of a name as kubectl has it, in the version that a client asked for.
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

// title returns a word that begins in upper case.
func title(word string) string {
	first := true
	return strings.Map(func(r rune) rune {
		if first {
			first = false
			return unicode.ToUpper(r)
		}
		return r
	}, word)
}

// clientGroup returns client-go's name of the group.
func (a api) clientGroup() string {
	first, _, _ := strings.Cut(a.group, ".")
	if first == "" {
		first = "core"
	}
	return title(first)
}
