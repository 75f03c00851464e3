package weir_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestStatsWhileIndexIsRead: an informer returns its stats while an index function blocks. The
// index counts with its state after the previous read.
func TestStatsWhileIndexIsRead(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	entered, release := make(chan struct{}), make(chan struct{})
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{
		Indexes: map[string]weir.Index{"name": weir.ByFunc(func(m *corev1.ConfigMap) ([]string, error) {
			if m.Name == "blocks" {
				close(entered)
				<-release
			}
			return []string{m.Name}, nil
		})},
	})
	check.NoError(t, inf.WaitForSync(ctx))
	read := func(value string) (n int) {
		for _, err := range inf.By("name", value) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	if n := read("a"); n != 1 {
		t.Fatalf("%d objects are called a", n)
	}
	before := inf.Stats()
	if before.Memory.Indexes == 0 {
		t.Error("the index takes no memory")
	}
	made := makeConfigMap(ctx, client, "d", "blocks")
	check.NoError(t, inf.WaitForResourceVersion(ctx, made.ResourceVersion))
	var reading sync.WaitGroup
	reading.Go(func() { read("blocks") })
	<-entered
	told := make(chan weir.Stats, 1)
	go func() { told <- inf.Stats() }()
	select {
	case s := <-told:
		if s.Objects != before.Objects+1 || s.Memory.Indexes != before.Memory.Indexes {
			t.Errorf("%d objects with %d bytes of indexes, want %d with %d", s.Objects, s.Memory.Indexes, before.Objects+1, before.Memory.Indexes)
		}
	case <-ctx.Done():
		t.Error("the figures wait for the index's function")
	}
	close(release)
	reading.Wait()
	if s := inf.Stats(); s.Memory.Indexes <= before.Memory.Indexes {
		t.Errorf("%d bytes of indexes with one more object, %d before", s.Memory.Indexes, before.Memory.Indexes)
	}
}
