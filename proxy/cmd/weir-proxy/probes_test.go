package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// checkProbes checks that the kubelet probes the port that serves only health checks.
func checkProbes(t *testing.T, container *corev1.Container) {
	t.Helper()
	var health corev1.ContainerPort
	for _, port := range container.Ports {
		if port.Name == "health" {
			health = port
		}
	}
	if listen := fmt.Sprintf("--health-listen=:%d", health.ContainerPort); !slices.Contains(container.Args, listen) {
		t.Errorf("no %s in %v", listen, container.Args)
	}
	for path, probe := range map[string]*corev1.Probe{"/readyz": container.ReadinessProbe, "/livez": container.LivenessProbe} {
		if get := probe.HTTPGet; get.Path != path || get.Port.StrVal != health.Name || get.Scheme != "" {
			t.Errorf("%+v", get)
		}
	}
}
