//go:build !fuzz

package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiScheme contains every kind of Kubernetes.
var apiScheme = scheme.Scheme

// Servers also send objects of the kind PartialObjectMetadata, in both encodings.
var _ = metav1.AddMetaToScheme(apiScheme)
