//go:build !fuzz

package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiScheme has every kind of Kubernetes.
var apiScheme = scheme.Scheme

// Servers also send metadata alone, in every encoding.
var _ = metav1.AddMetaToScheme(apiScheme)
