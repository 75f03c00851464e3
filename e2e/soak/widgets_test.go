package soak

import (
	"context"
	"fmt"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/internal/testing/testenv"
)

// widgets are custom resources whose definition changes: their schema, a default, and whether this
// version is served. They are written in version v2, which always is.
var (
	widgets        = schema.GroupVersionResource{Group: "soak.example.com", Version: "v1", Resource: "widgets"}
	writtenWidgets = widgets.GroupResource().WithVersion("v2")
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// definition is what changes of the definition.
type definition struct {
	served bool   // v1
	colour string // the default of spec.colour
	extra  bool   // the schema has spec.extra
}

// object is the whole definition.
func (d definition) object() *unstructured.Unstructured {
	extra := ""
	if d.extra {
		extra = ", extra: {type: string}"
	}
	validation := fmt.Sprintf(`{openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {}, properties: {
		colour: {type: string, default: %s}, size: {type: integer}%s}}}}}`, d.colour, extra)
	text := fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.soak.example.com}, spec: {
		group: soak.example.com, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
		versions: [{name: v1, served: %t, storage: false, schema: %s}, {name: v2, served: true, storage: true, schema: %s}]}}`,
		d.served, validation, validation)
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err) // of a text of ours
	}
	return u
}

func randomDefinition(r *rand.Rand) definition {
	return definition{served: r.IntN(3) > 0, colour: []string{"red", "green", "blue"}[r.IntN(3)], extra: r.IntN(2) == 0}
}

// defineWidgets creates the definition, and waits until widgets can be listed.
func (w *world) defineWidgets(ctx context.Context) {
	w.t.Helper()
	d := definition{served: true, colour: "red"}
	if _, err := w.dynamic(w.servers[0].Config()).Resource(definitions).Create(ctx, d.object(), metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.widgetsServed(ctx)
}

// redefine changes the definition. Errors are of servers that are down: then it stays as it is.
func (w *world) redefine(ctx context.Context, client dynamic.Interface, d definition) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Resource(definitions).Get(ctx, "widgets.soak.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Object["spec"] = d.object().Object["spec"]
		_, err = client.Resource(definitions).Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// widgetsServed waits until both API servers serve widgets, in the version that is read.
func (w *world) widgetsServed(ctx context.Context) {
	w.t.Helper()
	for i, s := range w.servers {
		client := w.dynamic(s.Config())
		testenv.EventuallyNoError(w.t, ctx, fmt.Sprintf("server %d serves widgets", i+1), func() error {
			_, err := client.Resource(widgets).List(ctx, metav1.ListOptions{})
			return err
		})
	}
}

const mergePatch = types.MergePatchType
