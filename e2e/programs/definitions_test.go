package programs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installDefinitions creates the CustomResourceDefinitions in the files of a module that a program
// requires, and waits until their resources are served.
func (w *world) installDefinitions(t *testing.T, ctx context.Context, program, module, pattern string) {
	t.Helper()
	dir, err := cluster.GoCommand(ctx, program, "list", "-m", "-f", "{{if .Replace}}{{.Replace.Dir}}{{else}}{{.Dir}}{{end}}", module)
	check.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions in %s: %v", dir, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		check.NoError(t, err)
		for document := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
			if strings.Contains(document, "\nkind: CustomResourceDefinition\n") {
				w.define(t, ctx, document)
			}
		}
	}
}

// define creates a CustomResourceDefinition, and waits until its resource is served.
func (w *world) define(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	crd := createYAML(t, ctx, w.objects.Resource(definitions), text)
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		resource := schema.GroupVersionResource{Group: group, Version: version["name"].(string), Resource: plural}
		testenv.EventuallyNoError(t, ctx, crd.GetName()+" is served", func() error {
			_, err := w.objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
	}
}

// createYAML creates an object from its YAML. Tabs in the text count as spaces.
func createYAML(t *testing.T, ctx context.Context, in dynamic.ResourceInterface, text string) *unstructured.Unstructured {
	t.Helper()
	o, err := tryCreateYAML(ctx, in, text)
	check.NoError(t, err)
	return o
}

// tryCreateYAML is createYAML for goroutines other than the test's.
func tryCreateYAML(ctx context.Context, in dynamic.ResourceInterface, text string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &o.Object)
	if err == nil {
		o, err = in.Create(ctx, o, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return o, nil
}
