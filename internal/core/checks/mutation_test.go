package checks

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"v": "1"}}}
}

// TestRun checks that the detector reports a changed object with its key within a second. It must
// drop each object after two minutes, and all objects at the end of Run.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []string
		d := NewMutationDetector(func(key, what string) { found = append(found, key+": "+what) })
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); d.Run(ctx) }()
		a, b := pod("a"), pod("b")
		d.Add("d/a", a)
		d.Add("d/b", b)
		d.Add("d/none", 7)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if found != nil {
			t.Errorf("found %v before anything was changed", found)
		}
		d.mu.Lock() // Compare also holds this lock; without the lock, the change would be a data race
		b.Labels["v"] = "changed"
		d.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(found) != 1 || !strings.HasPrefix(found[0], "d/b: ") || !strings.Contains(found[0], "changed") {
			t.Errorf("found %v", found)
		}
		d.mu.Lock()
		b.Labels["v"] = "1"
		d.mu.Unlock()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		check.Equal(t, len(d.seen), 0, "are kept for ever")
		cancel()
		<-ended
		if d.Add("d/a", a); d.Watching() {
			t.Error("goes on after the end")
		}
	})
}

// cached is an object with an unexported field.
type cached struct {
	metav1.ObjectMeta
	metav1.TypeMeta
	size int
}

func (c *cached) DeepCopyObject() runtime.Object {
	to := &cached{TypeMeta: c.TypeMeta, size: c.size}
	c.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	return to
}

// TestUnexportedField checks that Compare also compares unexported fields, as client-go does.
func TestUnexportedField(t *testing.T) {
	var found []string
	d, a := NewMutationDetector(func(key, _ string) { found = append(found, key) }), &cached{size: 1}
	d.Add("d/a", a)
	if d.Compare(); found != nil {
		t.Errorf("found %v before anything was changed", found)
	}
	a.size = 2
	if d.Compare(); len(found) != 1 {
		t.Errorf("found %v", found)
	}
}

func TestPanics(t *testing.T) {
	defer func() {
		if v, ok := recover().(string); !ok || !strings.Contains(v, "d/a") {
			t.Errorf("panic with %v", v)
		}
	}()
	d, a := NewMutationDetector(nil), pod("a")
	d.Add("d/a", a)
	a.Labels["v"] = "2"
	d.Compare()
}
