package apiserver

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinKinds lists the built-in kinds: those that kube-apiserver v1.37 stores, each in its stable
// version. A line is resource, kind, flags, short names. The flags are n: namespaced, s: has a
// status, a: in the category all, x: in the category api-extensions; and of the strategy, which is
// in pkg/registry of kubernetes, g: new objects have generation 1, i: changes increment the
// generation, c: an update is conditional, p: a PUT creates what is missing.
var builtinKinds = map[string]string{
	"v1": `
		configmaps ConfigMap n cm
		endpoints Endpoints np ep
		events Event np ev
		limitranges LimitRange np limits
		namespaces Namespace s ns
		nodes Node s no
		persistentvolumeclaims PersistentVolumeClaim ns pvc
		persistentvolumes PersistentVolume s pv
		pods Pod nsagi po
		podtemplates PodTemplate ngi
		replicationcontrollers ReplicationController nsagi rc
		resourcequotas ResourceQuota ns quota
		secrets Secret n
		serviceaccounts ServiceAccount n sa
		services Service nsap svc`,
	"admissionregistration.k8s.io/v1": `
		mutatingadmissionpolicies MutatingAdmissionPolicy xgic
		mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding xgic
		mutatingwebhookconfigurations MutatingWebhookConfiguration xgic
		validatingadmissionpolicies ValidatingAdmissionPolicy sxgic
		validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding xgic
		validatingwebhookconfigurations ValidatingWebhookConfiguration xgic`,
	"apps/v1": `
		controllerrevisions ControllerRevision n
		daemonsets DaemonSet nsagi ds
		deployments Deployment nsagi deploy
		replicasets ReplicaSet nsagi rs
		statefulsets StatefulSet nsagi sts`,
	"autoscaling/v2": `
		horizontalpodautoscalers HorizontalPodAutoscaler nsagi hpa`,
	"batch/v1": `
		cronjobs CronJob nsagi cj
		jobs Job nsagi`,
	"certificates.k8s.io/v1": `
		certificatesigningrequests CertificateSigningRequest s csr
		clustertrustbundles ClusterTrustBundle c
		podcertificaterequests PodCertificateRequest nsc`,
	"coordination.k8s.io/v1": `
		leases Lease ncp`,
	"discovery.k8s.io/v1": `
		endpointslices EndpointSlice ngi`,
	"events.k8s.io/v1": `
		events Event np ev`,
	"flowcontrol.apiserver.k8s.io/v1": `
		flowschemas FlowSchema sgi
		prioritylevelconfigurations PriorityLevelConfiguration sgi`,
	"networking.k8s.io/v1": `
		ingressclasses IngressClass gi
		ingresses Ingress nsgi ing
		ipaddresses IPAddress - ip
		networkpolicies NetworkPolicy ngi netpol
		servicecidrs ServiceCIDR s`,
	"node.k8s.io/v1": `
		runtimeclasses RuntimeClass cp`,
	"policy/v1": `
		poddisruptionbudgets PodDisruptionBudget nsgic pdb`,
	"rbac.authorization.k8s.io/v1": `
		clusterrolebindings ClusterRoleBinding p
		clusterroles ClusterRole p
		rolebindings RoleBinding np
		roles Role np`,
	"resource.k8s.io/v1": `
		deviceclasses DeviceClass gi
		devicetaintrules DeviceTaintRule sgic
		resourceclaims ResourceClaim ns
		resourceclaimtemplates ResourceClaimTemplate n
		resourceslices ResourceSlice gi`,
	"scheduling.k8s.io/v1": `
		priorityclasses PriorityClass g pc`,
	"storage.k8s.io/v1": `
		csidrivers CSIDriver ic
		csinodes CSINode sc
		csistoragecapacities CSIStorageCapacity nc
		storageclasses StorageClass - sc
		volumeattachments VolumeAttachment sc
		volumeattributesclasses VolumeAttributesClass - vac`,
	"storagemigration.k8s.io/v1": `
		storageversionmigrations StorageVersionMigration sc`,
}

// crdResource is the resource whose objects define other resources. client-go has no Go type for
// it, so it is stored like a custom resource.
var crdResource = Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	Kind:                 "CustomResourceDefinition",
	ShortNames:           []string{"crd", "crds"},
	Categories:           []string{"api-extensions"},
	Status:               true,
}

// builtin is a Resource with a Go type and a strategy. goType is nil where k8s.io/api, in the
// version that this was built with, has none; the resource is then stored like a custom resource.
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
			Namespaced:           strings.Contains(words[2], "n"),
			Status:               strings.Contains(words[2], "s"),
			ShortNames:           words[3:],
		},
		strategy: parseStrategy(words[2]),
	}
	if strings.Contains(words[2], "a") {
		b.Categories = []string{"all"}
	}
	if strings.Contains(words[2], "x") {
		b.Categories = []string{"api-extensions"}
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
