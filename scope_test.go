package weir

import (
	"errors"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestScopesOf(t *testing.T) {
	scopes, err := scopesOf(Options{
		Namespaces: []string{"a", "b"},
		Selectors:  []Selector{{Label: "app=web"}, {Label: "x", Field: "metadata.name=y"}},
	})
	check.NoError(t, err)
	want := []string{"a 0 app=web", "b 0 app=web", "a 1 x metadata.name=y", "b 1 x metadata.name=y"}
	if len(scopes) != len(want) {
		t.Fatalf("%d scopes, want %d", len(scopes), len(want))
	}
	for i, s := range scopes {
		check.Equal(t, s.namespace+" "+string('0'+rune(s.owner))+" "+s.String(), want[i], "scope %d", i)
	}
	if scopes, err := scopesOf(Options{}); err != nil || len(scopes) != 1 || scopes[0].namespace != "" {
		t.Errorf("no options give %v, %v", scopes, err)
	}
}

func TestScopesOfBadOptions(t *testing.T) {
	for name, opts := range map[string]Options{
		"all and one namespace": {Namespaces: []string{"", "a"}},
		"a namespace twice":     {Namespaces: []string{"a", "b", "a"}},
		"label selector":        {Selectors: []Selector{{Label: "a=b=c"}}},
		"field selector":        {Selectors: []Selector{{Field: "spec.nodeName"}}},
		"too many selectors":    {Selectors: make([]Selector, 33)},
	} {
		if _, err := scopesOf(opts); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%s: %v, want ErrInvalidOptions", name, err)
		}
	}
}
