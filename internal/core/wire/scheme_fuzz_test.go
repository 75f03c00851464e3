//go:build fuzz

package wire

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// apiScheme contains the kinds of core/v1, which the fuzz tests use. A fuzz build recompiles all
// imported packages, and the other API groups would add a minute.
var apiScheme = runtime.NewScheme()

var (
	_ = corev1.AddToScheme(apiScheme)
	_ = metav1.AddMetaToScheme(apiScheme)
)
