package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestColumnsOf checks that the columns of a custom resource are those of its version in its
// CustomResourceDefinition, and Name and Age if the definition cannot be read.
func TestColumnsOf(t *testing.T) {
	answers := maps.Clone(gadgets)
	answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com"] = `{"spec":{"versions":[` +
		`{"name":"v1alpha1","additionalPrinterColumns":[{"name":"Old","type":"string","jsonPath":".spec.old"}]},` +
		`{"name":"v1","additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},` +
		`{"name":"Colour","type":"string","jsonPath":".spec.colour","priority":1}]}]}}`
	resource := func(group, version, name, kind string) serverResource {
		gv := schema.GroupVersion{Group: group, Version: version}
		return serverResource{GroupVersionResource: gv.WithResource(name), Kind: gv.WithKind(kind)}
	}
	cfg := &rest.Config{Host: serveAnswers(t, answers).URL}
	for _, tc := range []struct {
		resource serverResource
		output   string
		want     []string
	}{
		{resource("example.com", "v1", "gadgets", "Gadget"), "", []string{"SIZE"}},
		{resource("example.com", "v1", "gadgets", "Gadget"), outputWide, []string{"SIZE", "COLOUR"}},
		{resource("example.com", "v2", "gadgets", "Gadget"), "", []string{"AGE"}},
		{resource("example.com", "v1", "cogs", "Cog"), "", []string{"AGE"}},
		{resource("rbac.authorization.k8s.io", "v1", "roles", "Role"), "", []string{"CREATED AT"}},
		{resource("", "v1", "events", "Event"), "", []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}},
	} {
		w := &watch{watchFlags: &watchFlags{output: tc.output}, columns: columnsOf(t.Context(), cfg, tc.resource)}
		if got := newSheet(io.Discard, w).columns; !slices.Equal(got, tc.want) {
			t.Errorf("%s -o %s: %q, want %q", tc.resource, tc.output, got, tc.want)
		}
	}
	check.Equal(t, len((&watch{}).headers()), 0, "columns without a table")
}

// TestEqualHeaders checks that two columns of one resource with equal headers remain two, and that
// resources share columns.
func TestEqualHeaders(t *testing.T) {
	definitions := func(names ...string) (all []columns.Definition) {
		for _, name := range names {
			all = append(all, columns.Definition{Name: name, Type: "string", JSONPath: ".spec." + name})
		}
		return all
	}
	twice := &watch{watchFlags: &watchFlags{}, columns: columns.Custom(definitions("Size", "Name", "SIZE"))}
	once := &watch{watchFlags: &watchFlags{}, columns: columns.Custom(definitions("Colour", "size"))}
	check.Equal(t, strings.Join(newSheet(io.Discard, once, twice).columns, " "), "SIZE NAME SIZE COLOUR", "columns")
	check.Equal(t, fmt.Sprint(twice.positions, once.positions), "[-1 0 1 2] [-1 3 0]", "positions")
}
