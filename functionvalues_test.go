//go:build !weir_safe

package weir_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFactorySharesFunctionIndexes checks that users share an index by function if they use the
// same Index value or the same function value. If an index of the informer has the same name but
// another definition, Acquire must return an error and add no index.
func TestFactorySharesFunctionIndexes(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	f := weir.NewFactory(ctx, server.Config())
	prefix := "x-"
	captures := func(m *corev1.ConfigMap) ([]string, error) { return []string{prefix + m.Name}, nil }
	value := weir.ByFunc(captures)
	indexes := func() map[string]weir.Index {
		return map[string]weir.Index{"value": value, "named": weir.ByFunc(byName), "captures": weir.ByFunc(captures)}
	}
	var leases []*weir.SharedInformer[*corev1.ConfigMap]
	for n := range 3 {
		lease, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{Indexes: indexes()})
		if err != nil {
			t.Fatalf("user %d: %v", n, err)
		}
		leases = append(leases, lease)
	}
	check.NoError(t, leases[0].WaitForSync(ctx))
	for n, lease := range leases {
		for name, of := range map[string]string{"value": "x-a", "named": "a", "captures": "x-a"} {
			found := 0
			for m, err := range lease.By(name, of) {
				if found++; err != nil || m.Name != "a" {
					t.Errorf("index %s: %v, %v", name, m, err)
				}
			}
			if found != 1 {
				t.Errorf("user %d finds %d objects by %s", n, found, name)
			}
		}
		if err := lease.AddIndex("later", value); err != nil {
			t.Errorf("user %d: an index that the first user added: %v", n, err)
		}
	}
	for n, other := range []weir.Index{
		weir.ByFunc(func(m *corev1.ConfigMap) ([]string, error) { return []string{m.Name}, nil }),
		weir.ByFunc(func(m *corev1.ConfigMap) ([]string, error) { return []string{prefix + m.Name}, nil }),
		weir.ByLabel("named"),
	} {
		opts := weir.Options{Indexes: map[string]weir.Index{"a": weir.ByLabel("a"), "named": other}}
		if _, err := weir.Acquire[*corev1.ConfigMap](f, opts); !errors.Is(err, weir.ErrIndexExists) {
			t.Errorf("%d: another index of a name that is taken: %v", n, err)
		}
	}
	for _, err := range leases[0].By("a", "x") {
		check.ErrorIs(t, err, weir.ErrUnknownIndex, "of the indexes of a user who was refused one was added")
	}
	check.NoError(t, f.Shutdown())
}
