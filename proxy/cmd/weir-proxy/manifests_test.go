package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const manifests = "../../../deploy"

// kustomization is what ours say; a field that is not here is an error.
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
	Patches []struct {
		Path string `json:"path"`
	} `json:"patches"`
}

// objects reads a file of manifests; what our types do not know is an error.
func objects(t *testing.T, path string) []runtime.Object {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
	defer documents.Close()
	for buf := make([]byte, len(raw)); ; {
		n, err := documents.Read(buf)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buf[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, object)
	}
}

// first is the first object of a type.
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

// TestManifests: every manifest is well-formed, and in the kustomization of its folder; all that has a namespace says which.
func TestManifests(t *testing.T) {
	err := filepath.WalkDir(manifests, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == manifests {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		if err != nil {
			return err
		}
		var k kustomization
		if err := yaml.UnmarshalStrict(raw, &k); err != nil {
			return err
		}
		named := []string{"kustomization.yaml"}
		for _, p := range k.Patches {
			named = append(named, p.Path)
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
			if file == "kustomization.yaml" {
				continue
			}
			for _, o := range objects(t, filepath.Join(dir, file)) {
				m, err := meta.Accessor(o)
				if err != nil {
					return err
				}
				kind := o.GetObjectKind().GroupVersionKind().Kind
				global := kind == "Namespace" || strings.HasPrefix(kind, "Cluster")
				if m.GetName() == "" || (m.GetNamespace() == "") != global {
					t.Errorf("%s: %s %q in %q", file, kind, m.GetName(), m.GetNamespace())
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDeployment: the command understands its flags, the pieces fit each other, and the ClusterRole lets it hold what it is to hold and no
// more.
func TestDeployment(t *testing.T) {
	base := filepath.Join(manifests, "base")
	deployment := first[*appsv1.Deployment](t, filepath.Join(base, "deployment.yaml"))
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, file := range []string{"base", "example"} {
		cmd := newCommand()
		args := first[*appsv1.Deployment](t, filepath.Join(manifests, file, "deployment.yaml")).Spec.Template.Spec.Containers[0].Args
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	service := first[*corev1.Service](t, filepath.Join(base, "service.yaml"))
	labels := deployment.Spec.Template.Labels
	if name, port := container.Ports[0].Name, service.Spec.Ports[0].TargetPort.StrVal; name != port || service.Spec.Selector["app.kubernetes.io/name"] != labels["app.kubernetes.io/name"] {
		t.Errorf("the service's port is %q of %v", port, service.Spec.Selector)
	}
	cmd := newCommand()
	if err := cmd.ParseFlags(container.Args); err != nil {
		t.Fatal(err)
	}
	resources, err := cmd.Flags().GetStringSlice("resources")
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	origin := 0
	for _, rule := range first[*rbacv1.ClusterRole](t, filepath.Join(base, "rbac.yaml")).Rules {
		if slices.Equal(rule.Resources, []string{"apiservices"}) && slices.Equal(rule.APIGroups, []string{"apiregistration.k8s.io"}) && slices.Equal(rule.Verbs, []string{"get"}) {
			origin++ // without which nothing is held
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
		t.Errorf("held are %v, and allowed %v", resources, allowed)
	}
}
