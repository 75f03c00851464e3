package populations

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// mixed creates the objects of a cluster, except the pods.
type mixed struct {
	seed       uint64
	pods       *podsim.Pods
	apps       []string
	nodes      []string
	namespaces []string
}

// mixedKinds returns the kinds of a cluster that runs the given pods; pods is the first kind. For
// most kinds, the number of objects depends on the numbers of pods, apps, nodes and namespaces. If
// there are no pods, pods is the only kind.
func mixedKinds(pods *podsim.Pods, seed uint64) []Kind {
	m := &mixed{seed: seed, pods: pods, apps: pods.Apps(), nodes: pods.Nodes(), namespaces: pods.Namespaces()}
	apps, nodes, namespaces := len(m.apps), len(m.nodes), len(m.namespaces)
	if apps == 0 {
		return []Kind{podsOf(pods)}
	}
	const core, batch, network, rbac = "/v1", "batch/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"
	return []Kind{
		podsOf(pods),
		m.kind(core, "configmaps", "ConfigMap", 2*apps, m.configMap),
		m.kind(core, "events", "Event", some(pods.Len(), 2), m.event),
		m.kind(core, "limitranges", "LimitRange", namespaces, m.limitRange),
		m.kind(core, "nodes", "Node", nodes, m.node),
		m.kind(core, "persistentvolumeclaims", "PersistentVolumeClaim", some(apps, 4), m.claim),
		m.kind(core, "persistentvolumes", "PersistentVolume", some(apps, 4), m.volume),
		m.kind(core, "resourcequotas", "ResourceQuota", namespaces, m.quota),
		m.kind(core, "secrets", "Secret", 2*apps, m.secret),
		m.kind(core, "serviceaccounts", "ServiceAccount", apps, m.serviceAccount),
		m.kind(core, "services", "Service", apps, m.service),
		m.kind("apps/v1", "controllerrevisions", "ControllerRevision", some(apps, 5), m.controllerRevision),
		m.kind("apps/v1", "daemonsets", "DaemonSet", some(nodes, 200), m.daemonSet),
		m.kind("apps/v1", "deployments", "Deployment", apps, m.deployment),
		m.kind("apps/v1", "replicasets", "ReplicaSet", 3*apps, m.replicaSet),
		m.kind("apps/v1", "statefulsets", "StatefulSet", some(apps, 10), m.statefulSet),
		m.kind("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", some(apps, 4), m.autoscaler),
		m.kind(batch, "cronjobs", "CronJob", some(apps, 10), m.cronJob),
		m.kind(batch, "jobs", "Job", some(apps, 2), m.job),
		m.kind("coordination.k8s.io/v1", "leases", "Lease", nodes+namespaces, m.lease),
		m.kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", apps, m.endpointSlice),
		m.kind(network, "ingresses", "Ingress", some(apps, 4), m.ingress),
		m.kind(network, "networkpolicies", "NetworkPolicy", 2*namespaces, m.networkPolicy),
		m.kind("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", some(apps, 3), m.disruptionBudget),
		m.kind(rbac, "clusterrolebindings", "ClusterRoleBinding", 40+some(namespaces, 4), m.clusterRoleBinding),
		m.kind(rbac, "clusterroles", "ClusterRole", 60, m.clusterRole),
		m.kind(rbac, "rolebindings", "RoleBinding", 3*namespaces, m.roleBinding),
		m.kind(rbac, "roles", "Role", 2*namespaces, m.role),
		m.kind("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", some(apps, 4), m.attachment),
		m.kind("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", 40, m.definition),
	}
}

// some returns n/every, but at least 1.
func some(n, every int) int { return max(1, n/every) }

// maker creates object i of a kind. w creates words from the random numbers of this object.
type maker func(w *podsim.Words, i int) Object

// kind returns a kind with n objects. Each object has its own stream of random numbers, so that any
// object can be created without the other ones.
func (m *mixed) kind(groupVersion, resource, kind string, n int, make maker) Kind {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		panic(fmt.Sprintf("populations: %v", err)) // groupVersion is a constant
	}
	stream := streamOf(resource)
	return Kind{
		GroupVersionResource: gv.WithResource(resource), Kind: kind, Len: n,
		object: func(i int) Object {
			return make(&podsim.Words{Rand: rand.New(rand.NewPCG(m.seed, stream+uint64(i)))}, i)
		},
	}
}

// streamOf returns the number of the first stream of random numbers for a resource. The numbers of
// different resources are far apart. No number has the same highest four bits as a stream for pods.
func streamOf(resource string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, c := range []byte(resource) {
		h = (h ^ uint64(c)) * prime
	}
	return 9<<60 | h<<32>>4
}

// epoch is the creation time of the oldest objects.
var epoch = time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)

// moment returns a random time in the 60 days after epoch.
func moment(w *podsim.Words) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(w.Rand.IntN(60*24*3600)) * time.Second).Local())
}

// meta creates the metadata of an object that belongs to app. managedFields contains one manager,
// which owns the labels and the given fields.
func meta(w *podsim.Words, namespace, name, app string, fields ...string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: podsim.UID(w.Rand), CreationTimestamp: moment(w),
		Labels: map[string]string{
			"app.kubernetes.io/name":       app,
			"app.kubernetes.io/managed-by": podsim.Pick(w, "helm", "kustomize", "operator"),
			"app.kubernetes.io/version":    fmt.Sprintf("%d.%d.%d", w.Between(0, 9), w.Between(0, 30), w.Between(0, 20)),
		},
	}
	if w.Chance(50) {
		o.Annotations = map[string]string{w.Name() + ".example.com/" + w.Word(): w.Text(w.Between(20, 300))}
	}
	owned := map[string]any{}
	for _, f := range fields {
		owned["f:"+f] = map[string]any{".": map[string]any{}, "f:" + w.Word(): map[string]any{}}
	}
	labels := map[string]any{".": map[string]any{}}
	for k := range o.Labels {
		labels["f:"+k] = map[string]any{}
	}
	owned["f:metadata"] = map[string]any{"f:labels": labels}
	raw, err := json.Marshal(owned)
	if err != nil {
		panic(fmt.Sprintf("populations: a map of maps did not marshal: %v", err))
	}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: podsim.Pick(w, "helm", "kubectl", "kube-controller-manager"), Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", Time: new(o.CreationTimestamp), FieldsType: "FieldsV1", FieldsV1: podsim.FieldsV1(string(raw)),
	}}
	return o
}

// app returns the name and the namespace of app i modulo the number of apps.
func (m *mixed) app(i int) (name, namespace string) {
	i %= len(m.apps)
	return m.apps[i], m.namespaces[i%len(m.namespaces)]
}

func (m *mixed) namespace(i int) string { return m.namespaces[i%len(m.namespaces)] }

// template creates a pod template from the first pod of app i. It removes the fields that the API
// server and the scheduler set.
func (m *mixed) template(i int) corev1.PodTemplateSpec {
	pod := m.pods.Pod(m.pods.FirstOf(i % len(m.apps)))
	delete(pod.Labels, "pod-template-hash")
	spec := pod.Spec
	spec.NodeName, spec.Priority, spec.PreemptionPolicy = "", nil, nil
	token := spec.Volumes[len(spec.Volumes)-1].Name
	spec.Volumes = spec.Volumes[:len(spec.Volumes)-1]
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if n := len(c.VolumeMounts) - 1; n >= 0 && c.VolumeMounts[n].Name == token {
			c.VolumeMounts = c.VolumeMounts[:n]
		}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: spec}
}

// selector returns a selector of the pods of an app.
func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}
