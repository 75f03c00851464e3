package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/internal/testing/check"
)

const manifests = "../../../deploy"

// kustomization contains the fields that the kustomization files of this repository use. readYAML
// fails for other fields.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
	Replicas []struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	} `json:"replicas"`
	Patches []struct { // JSON patches
		Path   string `json:"path"`
		Target struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"target"`
	} `json:"patches"`
}

// jsonPatch is a JSON patch that adds an argument.
type jsonPatch []struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// serviceMonitor contains the fields that the ServiceMonitor of this repository uses; decode fails
// for other fields. The Prometheus operator has Go types, but they would need another module.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Scheme          string `json:"scheme"`
			Path            string `json:"path"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				ServerName string `json:"serverName"`
				CA         struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

func (m *serviceMonitor) DeepCopyObject() runtime.Object { return new(*m) }

// readYAML reads a file that contains no object of the Kubernetes API. It fails the test if the
// type of into lacks a field of the file.
func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// objects reads a file of manifests. It fails the test for kinds or fields that the Go types lack.
func objects(t *testing.T, path string) []runtime.Object {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.NoError(t, err)
	return decode(t, path, raw)
}

// customTypes are the types of objects that are not of Kubernetes' own API.
var customTypes = map[string]func() runtime.Object{
	"ServiceMonitor": func() runtime.Object { return &serviceMonitor{} },
	"Certificate":    func() runtime.Object { return &certificate{} },
}

// decode returns the objects of YAML documents. It fails the test for kinds or fields that the Go
// types lack.
func decode(t *testing.T, name string, raw []byte) (out []runtime.Object) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
	defer documents.Close()
	for buf := make([]byte, len(raw)); ; {
		n, err := documents.Read(buf)
		if errors.Is(err, io.EOF) {
			return out
		}
		check.NoError(t, err)
		var of metav1.TypeMeta
		var object runtime.Object
		if err := yaml.Unmarshal(buf[:n], &of); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if custom := customTypes[of.Kind]; custom != nil {
			object = custom()
			err = yaml.UnmarshalStrict(buf[:n], object)
		} else {
			object, _, err = decoder.Decode(buf[:n], nil, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, buf[:n])
		}
		out = append(out, object)
	}
}

// first returns the first object of a type in a file.
func first[T runtime.Object](t *testing.T, path string) T {
	t.Helper()
	for _, o := range objects(t, path) {
		if o, ok := o.(T); ok {
			return o
		}
	}
	t.Fatalf("%s: none", path)
	panic("unreachable")
}

// clusterKinds are the cluster-scoped kinds, whose objects have no namespace.
var clusterKinds = []string{"Namespace", "PriorityClass", "FlowSchema", "PriorityLevelConfiguration"}

// TestManifests checks that each manifest is well-formed and that the kustomization of its folder
// names it. Each object of a namespaced kind must have a namespace.
func TestManifests(t *testing.T) {
	err := filepath.WalkDir(manifests, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == manifests {
			return err
		}
		switch filepath.Base(dir) {
		case "informers", "proxy": // are for Prometheus and Grafana; e2e/monitoring checks them
			return fs.SkipDir
		case "helm": // has no kustomization; TestChart checks it
			return fs.SkipDir
		}
		raw, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		if err != nil {
			return err
		}
		var k kustomization
		if err := yaml.UnmarshalStrict(raw, &k); err != nil {
			return err
		}
		// Files that contain no object of Kubernetes' own API.
		unchecked := []string{"kustomization.yaml"}
		named := []string{"kustomization.yaml"}
		for _, p := range k.Patches {
			named, unchecked = append(named, p.Path), append(unchecked, p.Path)
		}
		for _, r := range slices.Concat(k.Resources, k.Components) {
			if strings.HasPrefix(r, "../") {
				if _, err := os.Stat(filepath.Join(dir, r, "kustomization.yaml")); err != nil {
					t.Error(err)
				}
				continue
			}
			named = append(named, r)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return err
		}
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		slices.Sort(named)
		if !slices.Equal(files, named) {
			t.Errorf("%s has %v, and its kustomization names %v", dir, files, named)
		}
		for _, file := range files {
			if slices.Contains(unchecked, file) {
				continue
			}
			for _, o := range objects(t, filepath.Join(dir, file)) {
				m, err := meta.Accessor(o)
				if err != nil {
					return err
				}
				kind := o.GetObjectKind().GroupVersionKind().Kind
				global := slices.Contains(clusterKinds, kind) || strings.HasPrefix(kind, "Cluster")
				if m.GetName() == "" || (m.GetNamespace() == "") != global {
					t.Errorf("%s: %s %q in %q", file, kind, m.GetName(), m.GetNamespace())
				}
			}
		}
		return nil
	})
	check.NoError(t, err)
}

// TestDeployment checks that the command accepts the flags of the Deployment, and that names and
// ports match between the manifests, also those that the folder example changes. The ClusterRole
// must allow the proxy to cache its --resources, and nothing else.
func TestDeployment(t *testing.T) {
	base := filepath.Join(manifests, "base")
	deployment := first[*appsv1.Deployment](t, filepath.Join(base, "deployment.yaml"))
	container := deployment.Spec.Template.Spec.Containers[0]
	var example kustomization
	readYAML(t, filepath.Join(manifests, "example", "kustomization.yaml"), &example)
	if len(example.Images) != 1 || len(example.Replicas) != 1 || example.Images[0].Name != container.Image || example.Replicas[0].Name != deployment.Name {
		t.Errorf("the example changes %v and %v, and the base has %s of %s", example.Images, example.Replicas, container.Image, deployment.Name)
	}
	checkEnd(t, &deployment.Spec.Template.Spec)
	checkProbes(t, &container)
	if class := first[*schedulingv1.PriorityClass](t, filepath.Join(base, "priorityclass.yaml")); class.Name != deployment.Spec.Template.Spec.PriorityClassName {
		t.Errorf("the pods are of the priority class %q, and there is %q", deployment.Spec.Template.Spec.PriorityClassName, class.Name)
	}
	service := first[*corev1.Service](t, filepath.Join(base, "service.yaml"))
	monitor := first[*serviceMonitor](t, filepath.Join(manifests, "monitoring", "servicemonitor.yaml"))
	if at := monitor.Spec.Endpoints; len(at) != 1 || at[0].Port != service.Spec.Ports[0].Name || !maps.Equal(monitor.Spec.Selector.MatchLabels, service.Labels) {
		t.Errorf("the monitor of %v asks %v", monitor.Spec.Selector.MatchLabels, at)
	}
	labels := deployment.Spec.Template.Labels
	if name, port := container.Ports[0].Name, service.Spec.Ports[0].TargetPort.StrVal; name != port || service.Spec.Selector["app.kubernetes.io/name"] != labels["app.kubernetes.io/name"] {
		t.Errorf("the service's port is %q of %v", port, service.Spec.Selector)
	}
	cmd := newCommand()
	check.NoError(t, cmd.ParseFlags(container.Args))
	resources, err := cmd.Flags().GetStringSlice("resources")
	check.NoError(t, err)
	var allowed []string
	origin := 0
	for _, rule := range first[*rbacv1.ClusterRole](t, filepath.Join(base, "rbac.yaml")).Rules {
		if slices.Equal(rule.Resources, []string{"apiservices"}) && slices.Equal(rule.APIGroups, []string{"apiregistration.k8s.io"}) && slices.Equal(rule.Verbs, []string{"get"}) {
			origin++ // without this rule the proxy caches nothing
			continue
		}
		if !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
			t.Errorf("%v", rule.Verbs)
		}
		for _, r := range rule.Resources {
			allowed = append(allowed, schema.GroupResource{Group: rule.APIGroups[0], Resource: r}.String())
		}
	}
	slices.Sort(allowed)
	slices.Sort(resources)
	if !slices.Equal(allowed, resources) || origin != 1 {
		t.Errorf("cached are %v, and allowed %v", resources, allowed)
	}
}

// checkEnd checks that the pod's grace period is longer than a shutdown of the proxy takes.
func checkEnd(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	cmd := newCommand()
	check.NoError(t, cmd.ParseFlags(pod.Containers[0].Args))
	delay, err := cmd.Flags().GetDuration("shutdown-delay")
	check.NoError(t, err)
	const finish = time.Minute // see proxy.Server.Shutdown
	if has := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; has <= delay+finish || pod.Containers[0].Lifecycle != nil {
		t.Errorf("a pod has %v to end, and the proxy takes %v", has, delay+finish)
	}
}

// patchedArgs returns the arguments of the proxy after a folder's patches, which add arguments to
// those of the base.
func patchedArgs(t *testing.T, folder string) []string {
	t.Helper()
	args := first[*appsv1.Deployment](t, filepath.Join(manifests, "base", "deployment.yaml")).Spec.Template.Spec.Containers[0].Args
	var k kustomization
	readYAML(t, filepath.Join(manifests, folder, "kustomization.yaml"), &k)
	for _, p := range k.Patches {
		path := filepath.Join(manifests, folder, p.Path)
		var patch jsonPatch
		readYAML(t, path, &patch)
		for _, change := range patch {
			if change.Op != "add" || change.Path != "/spec/template/spec/containers/0/args/-" {
				t.Errorf("%s: %+v", path, change)
			}
			args = append(args, change.Value)
		}
	}
	return args
}

// TestMemory checks the memory bounds of watches, of resources on demand and of unread responses:
// together they must leave a part of the pod's memory for the resources that the proxy always
// caches.
func TestMemory(t *testing.T) {
	container := first[*appsv1.Deployment](t, filepath.Join(manifests, "base", "deployment.yaml")).Spec.Template.Spec.Containers[0]
	floor := resource.MustParse("100Mi")
	for _, folder := range []string{"base", "controlplane"} {
		cmd := newCommand()
		check.NoError(t, cmd.ParseFlags(patchedArgs(t, folder)))
		sum := floor.DeepCopy()
		for _, name := range []string{"watch-memory", "memory-budget", "response-memory"} {
			size, err := resource.ParseQuantity(cmd.Flags().Lookup(name).Value.String())
			check.NoError(t, err)
			sum.Add(size)
		}
		if limit := container.Resources.Limits.Memory(); sum.Cmp(*limit) >= 0 {
			t.Errorf("%s: watches, resources on demand and %s may take %s, and the container %s", folder, &floor, &sum, limit)
		}
	}
}

// TestAddedResources checks that the ClusterRole of the folder controlplane allows the proxy to
// cache the resources that the folder adds, and that no resource is added twice.
func TestAddedResources(t *testing.T) {
	cmd := newCommand()
	check.NoError(t, cmd.ParseFlags(patchedArgs(t, "controlplane")))
	held, err := cmd.Flags().GetStringSlice("resources")
	check.NoError(t, err)
	var allowed []string
	for _, from := range []string{"base", "controlplane"} {
		for _, rule := range first[*rbacv1.ClusterRole](t, filepath.Join(manifests, from, "rbac.yaml")).Rules {
			for _, r := range rule.Resources {
				if slices.Contains(rule.Verbs, "list") {
					allowed = append(allowed, schema.GroupResource{Group: rule.APIGroups[0], Resource: r}.String())
				}
			}
		}
	}
	slices.Sort(allowed)
	slices.Sort(held)
	if !slices.Equal(allowed, held) || len(slices.Compact(held)) != len(allowed) {
		t.Errorf("cached are %v, and allowed %v", held, allowed)
	}
}
