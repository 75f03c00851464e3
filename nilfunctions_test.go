package weir_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestNilFunctions: a nil handler or index function is rejected when it is passed, not when it
// would be called.
func TestNilFunctions(t *testing.T) {
	cfg := &rest.Config{Host: "http://127.0.0.1:1"}
	inf, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{})
	check.NoError(t, err)
	f := weir.NewFactory(t.Context(), cfg)
	defer f.Shutdown()
	lease, err := weir.Acquire[*corev1.Pod](f, weir.Options{})
	check.NoError(t, err)
	index := weir.ByFunc[*corev1.Pod](nil)
	indexed := weir.Options{Indexes: map[string]weir.Index{"nil": index}}
	for name, pass := range map[string]func() error{
		"Informer.Handle": func() error {
			_, err := inf.Handle(nil, weir.HandlerOptions[*corev1.Pod]{})
			return err
		},
		"SharedInformer.Handle": func() error {
			_, err := lease.Handle(nil, weir.HandlerOptions[*corev1.Pod]{})
			return err
		},
		"Informer.AddIndex":       func() error { return inf.AddIndex("nil", index) },
		"SharedInformer.AddIndex": func() error { return lease.AddIndex("nil", index) },
		"NewInformer": func() error {
			_, err := weir.NewInformer[*corev1.Pod](cfg, indexed)
			return err
		},
		"Use": func() error {
			_, err := weir.Acquire[*corev1.Pod](f, indexed)
			return err
		},
		"Use of another informer": func() error {
			opts := indexed
			opts.Namespaces = []string{"d"}
			_, err := weir.Acquire[*corev1.Pod](f, opts)
			return err
		},
	} {
		check.ErrorIs(t, pass(), weir.ErrInvalidOptions, "%s", name)
	}
}
