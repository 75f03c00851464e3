//go:build !weir_safe

package weir_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// Package clientgo's factories return Weir's informers only if they can read private fields of
// client-go's informers. The build tag weir_safe forbids that, so it also excludes this file.
func init() {
	damagedInformers["drop-in"] = func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		f, err := clientgo.NewSharedInformerFactory(cfg, 0)
		check.NoError(t, err)
		return runFactory(t, f.Core().V1().ConfigMaps().Informer())
	}
	damagedInformers["dynamic drop-in"] = func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		f, err := clientgo.NewDynamicSharedInformerFactory(cfg, 0)
		check.NoError(t, err)
		return runFactory(t, f.ForResource(configMaps).Informer())
	}
}
