//go:build !weir_safe

package weir_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// The factories' informers are Weir's only if client-go's can be adopted.
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
