package weir_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// With PrivateCopies every returned object is the reader's own. Without it, only Copy's is.
func TestPrivateCopies(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	for _, private := range []bool{false, true} {
		inf, stop := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{
			PrivateCopies: private, Indexes: map[string]weir.Index{"n": weir.ByFunc(byName)},
		})
		told := make(chan weir.Event[*corev1.ConfigMap], 1)
		_, err := inf.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) { told <- e }, weir.HandlerOptions[*corev1.ConfigMap]{})
		check.NoError(t, err)
		check.NoError(t, inf.WaitForSync(ctx))
		event := <-told
		reads := map[string]func() (*corev1.ConfigMap, error){
			"Get":          func() (*corev1.ConfigMap, error) { return inf.Get("d/a") },
			"Snapshot.Get": func() (*corev1.ConfigMap, error) { return inf.Snapshot().Get("d/a") },
			"Event.Object": event.Object,
			"All": func() (found *corev1.ConfigMap, err error) {
				for m, e := range inf.All() {
					if e == nil && m.Name == "a" {
						found = m
					}
				}
				return found, err
			},
			"By": func() (found *corev1.ConfigMap, err error) {
				for m, e := range inf.By("n", "a") {
					found, err = m, e
				}
				return found, err
			},
		}
		shared, err := inf.Get("d/a")
		check.NoError(t, err)
		for name, read := range reads {
			got, err := read()
			if err != nil || (got == shared) == private {
				t.Errorf("private %v: %s gives the shared object: %v, %v", private, name, got == shared, err)
			}
		}
		item, _ := inf.Item("d/a")
		testenv.ScribbleOver(shared)
		own, err := item.Copy()
		if err != nil || own.Labels["initial"] != "a" || len(own.Labels) != 1 {
			t.Errorf("private %v: a change to another copy appears in this one: %v, %v", private, own.Labels, err)
		}
		stop()
	}
	var none weir.Item[*corev1.ConfigMap]
	if _, err := none.Copy(); err == nil {
		t.Error("a copy of nothing")
	}
}
