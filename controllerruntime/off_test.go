//go:build !weir_safe

package controllerruntime_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestOff checks that WEIR_CLIENTGO=off makes NewCache use client-go's informers, also in place of
// an informer that cannot be adopted. The check runs in another process, because package clientgo
// stays off for the whole process.
func TestOff(t *testing.T) {
	if os.Getenv("WEIR_CLIENTGO") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOff$", "-test.v")
		cmd.Env = append(os.Environ(), "WEIR_CLIENTGO=off")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOff") {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	for _, o := range []cache.Options{{}, {NewInformer: toolscache.NewSharedIndexInformer}} {
		s := newSetup(t, cacheBuilder{newCache: controllerruntime.NewCache()})
		s.create(pod("a", "1"))
		c := s.start(s.cache(o))
		inf := s.informer(c, &corev1.Pod{}).(toolscache.SharedIndexInformer)
		original := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, nil, 0, toolscache.Indexers{})
		check.Equal(t, fmt.Sprintf("%T", inf), fmt.Sprintf("%T", original), "type")
		check.NoError(t, clientgo.Err(inf))
		check.Equal(t, fmt.Sprint(s.listed(c)), "[a/1]", "objects")
	}
}

// TestShadow checks that a cache with shadows works like any other, and that its informers do not
// differ.
func TestShadow(t *testing.T) {
	for _, mode := range []clientgo.Shadow{clientgo.ShadowWeir, clientgo.ShadowClientGo} {
		s := newSetup(t, cacheBuilder{newCache: controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{Shadow: mode}))})
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{}))
		calls := s.follow(s.informer(c, &corev1.Pod{}))
		s.create(pod("a", "2"))
		calls.waitFor("add initial=false a/2")
		check.Equal(t, fmt.Sprint(s.listed(c)), "[a/1 a/2]", "objects")
		check.NoError(t, clientgo.Err(s.informer(c, &corev1.Pod{}).(toolscache.SharedIndexInformer)))
	}
}
