package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const tableType = jsonType + ";as=Table;g=meta.k8s.io;v=v1"

// onlyNameAndAge are kinds for which package columns has fewer columns than kube-apiserver: kinds
// without a stable version. No controller writes them unless an alpha or beta feature is enabled.
var onlyNameAndAge = map[schema.GroupKind]bool{
	{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:        true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:  true,
	{Group: "lifecycle.k8s.io", Kind: "Eviction"}:                 true,
	{Group: "lifecycle.k8s.io", Kind: "EvictionRequest"}:          true,
	{Group: "resource.k8s.io", Kind: "ResourcePoolStatusRequest"}: true,
	{Group: "scheduling.k8s.io", Kind: "CompositePodGroup"}:       true,
	{Group: "scheduling.k8s.io", Kind: "PodGroup"}:                true,
}

// TestColumns compares the cells and column definitions of package columns with kube-apiserver's
// Tables, for all resources in all versions. The objects have random values, and then those that
// the columns distinguish.
func TestColumns(t *testing.T) {
	ctx := shared.Begin(t, deadline)
	var names []string
	for i := range 24 {
		names = append(names, fmt.Sprintf("columns-%d", i))
	}
	kinds := kindsOf(served, names...)
	t.Cleanup(func() {
		if _, err := shared.DeleteFuzzed(context.WithoutCancel(ctx), kinds); err != nil {
			t.Error(err)
		}
	})
	c := &columnsTest{side: newSide(t, shared.Config()), faults: map[string]int{}, texts: map[string]map[string]bool{}}
	for round := range 1 + 2**rounds {
		_, err := shared.PutFuzzed(ctx, seedOf(0)+int64(100*round), kinds)
		check.NoError(t, err)
		for _, r := range served {
			c.compare(t, ctx, r, setOf(r))
		}
		d := rand.New(rand.NewPCG(uint64(seedOf(0)), uint64(round)))
		for _, k := range kinds {
			r := &resource{k.Resource.WithVersion(k.Versions[0]), k.Kind, k.Namespace != ""}
			for _, name := range names {
				c.vary(t, ctx, d, r, name)
			}
		}
		for _, r := range served {
			c.compare(t, ctx, r, setOf(r))
		}
	}
	t.Logf("%d rows", c.rows)
	if *rounds == 1 {
		return
	}
	// In several rounds, the values must reach what the columns distinguish.
	for column, wanted := range map[string]string{
		"Pod Status":                          "Running Terminating Completed Error CrashLoopBackOff NotReady Init:Error",
		"Job Status":                          "Complete Failed Terminating Suspended Running",
		"Node Status":                         "Ready NotReady Unknown Ready,SchedulingDisabled",
		"CertificateSigningRequest Condition": "Pending Approved Denied",
		"Service External-IP":                 "<none> <pending>",
	} {
		for _, text := range strings.Fields(wanted) {
			if !c.texts[column][text] {
				t.Errorf("no %s was %s", column, text)
			}
		}
	}
}

func setOf(r *resource) *columns.Set {
	if r.custom() {
		return columns.Custom(nil)
	}
	return columns.Of(r.GroupVersion().WithKind(r.kind))
}

type columnsTest struct {
	*side
	rows   int
	faults map[string]int             // by kind and column
	texts  map[string]map[string]bool // the cells that occurred, by kind and column
}

// table requests a Table that contains whole objects, and returns it with the times before and
// after the request.
func (c *columnsTest) table(t *testing.T, ctx context.Context, path string) (table *metav1.Table, before, after time.Time) {
	t.Helper()
	var a *answer
	// While kube-apiserver's caches initialize, the code is 429.
	testenv.Eventually(t, ctx, path+" is served", func() bool {
		before = time.Now()
		var err error
		a, err = c.ask(ctx, path+"?includeObject=Object", tableType, 0)
		check.NoError(t, err)
		after = time.Now()
		return a.code != http.StatusTooManyRequests
	})
	table = &metav1.Table{}
	if err := json.Unmarshal(a.parts[0], table); err != nil || table.Kind != "Table" {
		t.Fatalf("%s: %v: %.300s", path, err, a.parts[0])
	}
	return table, before, after
}

// compare compares the Table of a resource with the set.
func (c *columnsTest) compare(t *testing.T, ctx context.Context, r *resource, set *columns.Set) {
	t.Helper()
	gvk := r.GroupVersion().WithKind(r.kind)
	if onlyNameAndAge[gvk.GroupKind()] || gvk == autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler") {
		check.Equal(t, len(set.Definitions()), 2, "columns of %s", r)
		return
	}
	paths := []string{r.path()}
	if r.Resource == "storageclasses" { // a list marks the default class
		paths = []string{r.object("columns-0"), r.object("columns-1"), r.object("columns-2")}
	}
	for _, path := range paths {
		table, before, after := c.table(t, ctx, path)
		ours, theirs := definitionsOf(set.Definitions()), definitionsOf(table.ColumnDefinitions)
		if !reflect.DeepEqual(ours, theirs) {
			c.fault(t, r, "definitions", "columns %v, kube-apiserver %v", ours, theirs)
			return
		}
		for i := range table.Rows {
			c.row(t, r, set, &table.Rows[i], before, after)
		}
	}
}

// row compares the cells of one object, which it decodes to both forms.
func (c *columnsTest) row(t *testing.T, r *resource, set *columns.Set, row *metav1.TableRow, before, after time.Time) {
	t.Helper()
	c.rows++
	u := &unstructured.Unstructured{}
	check.NoError(t, u.UnmarshalJSON(row.Object.Raw))
	forms := map[string]any{"unstructured": u}
	if typed, err := scheme.Scheme.New(r.GroupVersion().WithKind(r.kind)); err == nil {
		check.NoError(t, json.Unmarshal(row.Object.Raw, typed))
		forms["typed"] = typed
	}
	for form, object := range forms {
		var possible [][]any // the ages may change while kube-apiserver answers
		for at := before; at.Before(after.Add(500 * time.Millisecond)); at = at.Add(500 * time.Millisecond) {
			possible = append(possible, asJSON(t, set.Cells(object, at)))
		}
		set.Healthy(object) // must not panic
		for i, d := range set.Definitions() {
			theirs := row.Cells[i]
			matches := false
			for _, ours := range possible {
				matches = matches || reflect.DeepEqual(ours[i], theirs)
			}
			if !matches {
				c.fault(t, r, d.Name, "%s %s of %s: %#v, kube-apiserver %#v\n%.3000s", form, d.Name, u.GetName(), possible[0][i], theirs, row.Object.Raw)
			}
			key := r.kind + " " + d.Name
			if c.texts[key] == nil {
				c.texts[key] = map[string]bool{}
			}
			c.texts[key][columns.Text(theirs)] = true
		}
	}
}

// fault reports the first difference of each column.
func (c *columnsTest) fault(t *testing.T, r *resource, column, format string, args ...any) {
	t.Helper()
	key := r.String() + column
	if c.faults[key]++; c.faults[key] == 1 {
		t.Errorf("%s: %s", r, fmt.Sprintf(format, args...))
	}
}

// definitionsOf returns what must be equal of the definitions.
func definitionsOf(all []metav1.TableColumnDefinition) (out []string) {
	for _, d := range all {
		out = append(out, fmt.Sprintf("%q %s %s %d", d.Name, d.Type, d.Format, d.Priority))
	}
	return out
}

// asJSON returns the cells as a JSON decoder returns them.
func asJSON(t *testing.T, cells []any) (out []any) {
	t.Helper()
	text, err := json.Marshal(cells)
	check.NoError(t, err)
	check.NoError(t, json.Unmarshal(text, &out))
	return out
}

// vary replaces an object by one whose values the columns distinguish.
func (c *columnsTest) vary(t *testing.T, ctx context.Context, d *rand.Rand, r *resource, name string) {
	t.Helper()
	path := r.path() + "/" + name
	ns := ""
	if r.namespaced {
		path, ns = strings.TrimSuffix(r.path(), r.Resource)+"namespaces/"+namespace+"/"+r.Resource+"/"+name, namespace
	}
	a, err := c.ask(ctx, path, jsonType, 0)
	check.NoError(t, err)
	var o map[string]any
	check.NoError(t, json.Unmarshal(a.parts[0], &o))
	if o["kind"] != r.kind {
		t.Fatalf("%s: %.300s", path, a.parts[0])
	}
	for _, p := range presets {
		if (p.kind == "" || p.kind == r.kind) && d.IntN(100) < p.percent {
			check.NoError(t, unstructured.SetNestedField(o, asAny(t, p.value(d)), strings.Split(p.path, ".")...))
		}
	}
	metadata := o["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	metadata["creationTimestamp"] = someTime(d)
	value, err := json.Marshal(varied(d, "", o))
	check.NoError(t, err)
	check.NoError(t, shared.PutStored(ctx, r.GroupResource(), ns, name, value))
}

// customColumns are columns of each type, of values that have any type.
func customColumns() (all []any) {
	for i, path := range []string{
		".spec.any", ".spec.any.a", ".spec.any[0]", ".spec.list[1]", ".spec.list[-1:]", `.spec.conditions[?(@.type=="Ready")].status`, ".spec.text",
		".spec.number", ".spec.whole", ".spec.flag", ".spec.when", ".metadata.creationTimestamp", `.metadata.annotations.seed`, ".spec.none.at.all", ".spec.list",
	} {
		for _, kind := range []string{"string", "integer", "number", "boolean", "date"} {
			all = append(all, map[string]any{"name": fmt.Sprintf("%s %d", kind, i), "type": kind, "jsonPath": path, "priority": i % 2})
		}
	}
	return all
}

// TestCustomColumns compares the cells of a custom resource, whose values have any type.
func TestCustomColumns(t *testing.T) {
	ctx := shared.Begin(t, deadline)
	client, err := dynamic.NewForConfig(shared.Config())
	check.NoError(t, err)
	r := &resource{schema.GroupVersionResource{Group: "columns.weir.dev", Version: "v1", Resource: "rows"}, "Row", false}
	defined := customColumns()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "rows.columns.weir.dev"},
		"spec": map[string]any{"group": r.Group, "scope": "Cluster", "names": map[string]any{"plural": "rows", "kind": r.kind}, "versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": defined,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}}},
	}}
	crd.Object = asAny(t, crd.Object).(map[string]any)
	_, err = client.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := client.Resource(definitions).Delete(context.WithoutCancel(ctx), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	text, err := json.Marshal(defined)
	check.NoError(t, err)
	var ours []columns.Definition
	check.NoError(t, json.Unmarshal(text, &ours))
	testenv.EventuallyNoError(t, ctx, "rows are served", func() error {
		_, err := client.Resource(r.GroupVersionResource).List(ctx, metav1.ListOptions{})
		return err
	})
	d := rand.New(rand.NewPCG(uint64(seedOf(0)), 0))
	for i := range 60 {
		spec := map[string]any{
			"any": anyJSON(d, 3), "list": []any{anyJSON(d, 1), anyJSON(d, 1), anyJSON(d, 2)}[:d.IntN(4)], "text": "a\nb", "number": 2.75, "whole": 3.0,
			"flag": true, "when": []string{someTime(d), "null", "", "yesterday", "0001-01-01T00:00:00Z", "2020-01-01T00:00:00.5+01:00"}[d.IntN(6)],
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Other", "status": "False"}}[:d.IntN(3)],
		}
		o := &unstructured.Unstructured{Object: asAny(t, map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.kind, "spec": spec}).(map[string]any)}
		o.SetName(fmt.Sprintf("row-%d", i))
		_, err := client.Resource(r.GroupVersionResource).Create(ctx, o, metav1.CreateOptions{})
		check.NoError(t, err)
	}
	c := &columnsTest{side: newSide(t, shared.Config()), faults: map[string]int{}, texts: map[string]map[string]bool{}}
	c.compare(t, ctx, r, columns.Custom(ours))
	check.Equal(t, c.rows, 60, "rows")
}
