package weir_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
)

// TestErrorTexts: what calls return is a sentinel of this package, and its text names what was
// asked for and no package.
func TestErrorTexts(t *testing.T) {
	inf, err := weir.NewInformer[*corev1.ConfigMap](&rest.Config{}, weir.Options{Indexes: map[string]weir.Index{"app": weir.ByLabel("app")}})
	if err != nil {
		t.Fatal(err)
	}
	var unknown error
	for _, err := range inf.By("none", "x") {
		unknown = err
	}
	for _, c := range []struct {
		err, is error
		text    string
	}{
		{inf.AddIndex("app", weir.ByLabel("x")), weir.ErrIndexExists, `index "app": index exists`},
		{unknown, weir.ErrUnknownIndex, `configmaps: index "none": unknown index`},
		{inf.WaitForResourceVersion(t.Context(), "abc"), weir.ErrInvalidResourceVersion, `configmaps: not at resourceVersion abc: resourceVersion "abc": not an integer`},
	} {
		if !errors.Is(c.err, c.is) || c.err.Error() != c.text {
			t.Errorf("%v, want %s", c.err, c.text)
		}
	}
}
