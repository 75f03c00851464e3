//go:build fuzz

package wire

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// apiScheme has the kinds of core/v1, which the fuzz tests use. Fuzzing compiles all that a package
// needs again, and the other groups take a minute.
var apiScheme = runtime.NewScheme()

var (
	_ = corev1.AddToScheme(apiScheme)
	_ = metav1.AddMetaToScheme(apiScheme)
)
