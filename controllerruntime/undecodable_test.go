package controllerruntime_test

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestUndecodableByField checks that List returns the other objects if one object cannot be
// decoded, with and without a field selector. After the object was corrected, List must return it
// too. With controller-runtime's own informers, such an object makes the whole LIST fail.
func TestUndecodableByField(t *testing.T) {
	for name, opts := range map[string]clientgo.Options{"packed": {}, "pinned": {PinDecoded: true}} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, cacheBuilder{name, controllerruntime.NewCache(controllerruntime.WithOptions(opts)), true})
			bad := untyped(widgetKind)
			bad.SetNamespace("a")
			bad.SetName("bad")
			bad.Object["spec"] = map[string]any{"color": int64(7)}
			s.create(newWidget("a", "1", "red"), bad, newWidget("a", "2", "blue"), newWidget("b", "1", "red"))
			c := s.cache(cache.Options{})
			check.NoError(t, c.IndexField(s.ctx, &widget{}, "spec.color", func(o client.Object) []string { return []string{o.(*widget).Spec.Color} }))
			s.start(c)
			calls := s.follow(s.informer(c, &widget{}))
			red := client.MatchingFields{"spec.color": "red"}
			s.lists(c, []string{"a/1", "b/1"}, red)
			s.lists(c, []string{"a/1"}, red, client.InNamespace("a"))
			s.lists(c, []string{"a/1", "a/2", "b/1"})
			if err := c.Get(s.ctx, client.ObjectKeyFromObject(bad), &widget{}); err == nil {
				t.Error("an object that cannot be decoded was found")
			}
			check.NoError(t, s.client.Get(s.ctx, client.ObjectKeyFromObject(bad), bad))
			bad.Object["spec"] = map[string]any{"color": "red"}
			check.NoError(t, s.client.Update(s.ctx, bad))
			calls.waitFor("add initial=false a/bad")
			s.lists(c, []string{"a/1", "a/bad", "b/1"}, red)
		})
	}
}

// lists calls List and checks the keys of the returned widgets.
func (s *setup) lists(c client.Reader, want []string, opts ...client.ListOption) {
	s.t.Helper()
	var list widgetList
	if err := c.List(s.ctx, &list, opts...); err != nil {
		s.t.Errorf("%v: %v", opts, err)
	}
	got := names(pointers(list.Items))
	if slices.Sort(got); !slices.Equal(got, want) {
		s.t.Errorf("%v: %v, want %v", opts, got, want)
	}
}
