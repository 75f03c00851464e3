package cluster

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestServersAndBackup checks that two API servers serve the same etcd, and that one can be paused
// and killed while the other serves. It also checks that both serve the restored state after
// Restore.
func TestServersAndBackup(t *testing.T) {
	c := start(t, Options{})
	second, err := c.AddAPIServer(t.Context())
	check.NoError(t, err)
	var maps [2]typedcorev1.ConfigMapInterface
	for i, s := range c.APIServers() {
		client, err := kubernetes.NewForConfig(s.Config())
		check.NoError(t, err)
		maps[i] = client.CoreV1().ConfigMaps("default")
	}
	create := func(ctx context.Context, at int, name string) (int, error) {
		cm, err := maps[at].Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
		rv, err := strconv.Atoi(cm.ResourceVersion)
		return rv, err
	}
	kept, err := create(t.Context(), 0, "kept")
	check.NoError(t, err)
	if _, err := maps[1].Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the second server: %v", err)
	}

	pauseAndResume(t, second, maps[1], maps[0])
	check.NoError(t, c.Backup(t.Context()))
	var lost int
	for lost == 0 { // requests may fail until the servers have reconnected to the restarted etcd
		if lost, err = create(t.Context(), 1, "lost"); err != nil && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err) {
			t.Fatal(err)
		}
	}
	check.NoError(t, c.Restore(t.Context()))
	for i := range maps {
		if _, err := maps[i].Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Errorf("server %d: %v", i, err)
		}
		if _, err := maps[i].Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("server %d has what was written after the backup: %v", i, err)
		}
	}
	if c, err := maps[0].Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || c.ResourceVersion != strconv.Itoa(kept) {
		t.Errorf("%v, %v, written as %d", c, err, kept)
	}
	second.Kill()
	if _, err := create(t.Context(), 0, "after"); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Wait(ended); err != nil {
		t.Error(err)
	}
}

// pauseAndResume pauses a server. It checks that the server does not answer while it is paused,
// that the other server answers, and that the server answers after Resume.
func pauseAndResume(t *testing.T, s *APIServer, its, others typedcorev1.ConfigMapInterface) {
	t.Helper()
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := its.Get(ctx, "kept", metav1.GetOptions{}); err == nil {
		t.Error("a paused server answers")
	}
	if _, err := others.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the other server: %v", err)
	}
	s.Resume()
	if _, err := its.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("a server that goes on: %v", err)
	}
}
