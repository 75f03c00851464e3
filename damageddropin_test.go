//go:build !weir_safe

package weir_test

import (
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/clientgo"
)

// Package clientgo's factories return Weir's informers only if they can read private fields of
// client-go's informers. The build tag weir_safe forbids that, so it also excludes this file.
func init() {
	damagedInformers["drop-in"] = func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		f := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
		return runFactory(t, f.Core().V1().ConfigMaps().Informer())
	}
	damagedInformers["dynamic drop-in"] = func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		f := clientgo.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		return runFactory(t, f.ForResource(configMaps).Informer())
	}
}
