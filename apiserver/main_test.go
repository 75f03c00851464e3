package apiserver_test

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	goleak.VerifyTestMain(m)
}

// semanticEqual compares objects by the API's semantics: a nil list equals an empty one.
func semanticEqual(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
