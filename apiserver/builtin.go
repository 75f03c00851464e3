package apiserver

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinKinds lists the built-in kinds: the kinds that kube-apiserver v1.37 stores, each in its
// stable version. A line contains the resource, the kind, the flags (separated by commas) and short
// names. The flags are
//
//	namespaced           the resource is namespaced
//	status, scale        the resource has this subresource
//	all, api-extensions  the category of the resource
//	generation           new objects have generation 1
//	increments           changes increment the generation
//	conditional          an update must have a resourceVersion
//	putCreates           a PUT creates a missing object
//	-                    none of these
//
// The flags generation, increments, conditional and putCreates set the kind's strategy. They are
// the same as in kube-apiserver, whose strategies are in pkg/registry of kubernetes.
var builtinKinds = map[string]string{
	"v1": `
		configmaps ConfigMap namespaced cm
		endpoints Endpoints namespaced,putCreates ep
		events Event namespaced,putCreates ev
		limitranges LimitRange namespaced,putCreates limits
		namespaces Namespace status ns
		nodes Node status no
		persistentvolumeclaims PersistentVolumeClaim namespaced,status pvc
		persistentvolumes PersistentVolume status pv
		pods Pod namespaced,status,all,generation,increments po
		podtemplates PodTemplate namespaced,generation,increments
		replicationcontrollers ReplicationController namespaced,status,scale,all,generation,increments rc
		resourcequotas ResourceQuota namespaced,status quota
		secrets Secret namespaced
		serviceaccounts ServiceAccount namespaced sa
		services Service namespaced,status,all,putCreates svc`,
	"admissionregistration.k8s.io/v1": `
		mutatingadmissionpolicies MutatingAdmissionPolicy api-extensions,generation,increments,conditional
		mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding api-extensions,generation,increments,conditional
		mutatingwebhookconfigurations MutatingWebhookConfiguration api-extensions,generation,increments,conditional
		validatingadmissionpolicies ValidatingAdmissionPolicy status,api-extensions,generation,increments,conditional
		validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding api-extensions,generation,increments,conditional
		validatingwebhookconfigurations ValidatingWebhookConfiguration api-extensions,generation,increments,conditional`,
	"apps/v1": `
		controllerrevisions ControllerRevision namespaced
		daemonsets DaemonSet namespaced,status,all,generation,increments ds
		deployments Deployment namespaced,status,scale,all,generation,increments deploy
		replicasets ReplicaSet namespaced,status,scale,all,generation,increments rs
		statefulsets StatefulSet namespaced,status,scale,all,generation,increments sts`,
	"autoscaling/v2": `
		horizontalpodautoscalers HorizontalPodAutoscaler namespaced,status,all,generation,increments hpa`,
	"batch/v1": `
		cronjobs CronJob namespaced,status,all,generation,increments cj
		jobs Job namespaced,status,all,generation,increments`,
	"certificates.k8s.io/v1": `
		certificatesigningrequests CertificateSigningRequest status csr
		clustertrustbundles ClusterTrustBundle conditional
		podcertificaterequests PodCertificateRequest namespaced,status,conditional`,
	"coordination.k8s.io/v1": `
		leases Lease namespaced,conditional,putCreates`,
	"discovery.k8s.io/v1": `
		endpointslices EndpointSlice namespaced,generation,increments`,
	"events.k8s.io/v1": `
		events Event namespaced,putCreates ev`,
	"flowcontrol.apiserver.k8s.io/v1": `
		flowschemas FlowSchema status,generation,increments
		prioritylevelconfigurations PriorityLevelConfiguration status,generation,increments`,
	"networking.k8s.io/v1": `
		ingressclasses IngressClass generation,increments
		ingresses Ingress namespaced,status,generation,increments ing
		ipaddresses IPAddress - ip
		networkpolicies NetworkPolicy namespaced,generation,increments netpol
		servicecidrs ServiceCIDR status`,
	"node.k8s.io/v1": `
		runtimeclasses RuntimeClass conditional,putCreates`,
	"policy/v1": `
		poddisruptionbudgets PodDisruptionBudget namespaced,status,generation,increments,conditional pdb`,
	"rbac.authorization.k8s.io/v1": `
		clusterrolebindings ClusterRoleBinding putCreates
		clusterroles ClusterRole putCreates
		rolebindings RoleBinding namespaced,putCreates
		roles Role namespaced,putCreates`,
	"resource.k8s.io/v1": `
		deviceclasses DeviceClass generation,increments
		devicetaintrules DeviceTaintRule status,generation,increments,conditional
		resourceclaims ResourceClaim namespaced,status
		resourceclaimtemplates ResourceClaimTemplate namespaced
		resourceslices ResourceSlice generation,increments`,
	"scheduling.k8s.io/v1": `
		priorityclasses PriorityClass generation pc`,
	"storage.k8s.io/v1": `
		csidrivers CSIDriver increments,conditional
		csinodes CSINode status,conditional
		csistoragecapacities CSIStorageCapacity namespaced,conditional
		storageclasses StorageClass - sc
		volumeattachments VolumeAttachment status,conditional
		volumeattributesclasses VolumeAttributesClass - vac`,
	"storagemigration.k8s.io/v1": `
		storageversionmigrations StorageVersionMigration status,conditional`,
}

// crdResource is the resource customresourcedefinitions. client-go has no Go type for its kind, so
// the server stores its objects like custom resources.
var crdResource = Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	Kind:                 "CustomResourceDefinition",
	ShortNames:           []string{"crd", "crds"},
	Categories:           []string{"api-extensions"},
	Status:               true,
}

// builtin is a Resource with a Go type and a strategy. goType is nil if the linked k8s.io/api has
// no type for the kind; the server then stores the objects like custom resources.
type builtin struct {
	Resource
	goType   reflect.Type
	strategy strategy
}

// builtins parses builtinKinds, and adds crdResource.
func builtins() ([]builtin, error) {
	out := []builtin{{Resource: crdResource, strategy: definitionStrategy}}
	for groupVersion, lines := range builtinKinds {
		gv, err := schema.ParseGroupVersion(groupVersion)
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			b, err := parseBuiltin(gv, strings.Fields(line))
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

func parseBuiltin(gv schema.GroupVersion, words []string) (builtin, error) {
	if len(words) < 3 {
		return builtin{}, fmt.Errorf("apiserver: built-in kind %v of %v", words, gv)
	}
	b := builtin{
		Resource: Resource{
			GroupVersionResource: gv.WithResource(words[0]),
			Kind:                 words[1],
			ShortNames:           words[3:],
		},
	}
	for flag := range strings.SplitSeq(words[2], ",") {
		if !b.set(flag) {
			return builtin{}, fmt.Errorf("apiserver: built-in kind %s of %v: flag %q", b.Kind, gv, flag)
		}
	}
	object, err := builtinScheme.New(gv.WithKind(b.Kind))
	switch {
	case err == nil:
		b.goType = reflect.TypeOf(object).Elem()
	case !runtime.IsNotRegisteredError(err):
		return builtin{}, fmt.Errorf("apiserver: %w", err)
	}
	return b, nil
}

// set applies a flag of builtinKinds. It returns false for an unknown flag.
func (b *builtin) set(flag string) bool {
	switch flag {
	case "-":
	case "namespaced":
		b.Namespaced = true
	case "status":
		b.Status = true
	case "scale":
		b.Scale = builtinScale
	case "all", "api-extensions":
		b.Categories = []string{flag}
	case "generation":
		b.strategy.generation = 1
	case "increments":
		b.strategy.increments = true
	case "conditional":
		b.strategy.conditional = true
	case "putCreates":
		b.strategy.putCreates = true
	default:
		return false
	}
	return true
}
