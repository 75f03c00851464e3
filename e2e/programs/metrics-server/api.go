package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// api is a client of metrics-server's API.
type api struct {
	base   string
	client *http.Client
}

// usage is a resource usage: CPU in thousandths of a core, memory in bytes. It omits the time of
// the measurement, which differs between runs.
type usage struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

func usageOf(list corev1.ResourceList) usage {
	cpu := list[corev1.ResourceCPU]
	return usage{int64(math.Round(float64(cpu.ScaledValue(resource.Nano)) / 1e6)), list.Memory().Value()}
}

// measured is metrics-server's answer for a pod or a node.
type measured struct {
	Labels map[string]string `json:"labels"`
	Usage  map[string]usage  `json:"usage"` // by container; the key for a node is empty
}

// all returns the answers for all pods and nodes by name. The map is empty if a request fails, for
// example because metrics-server is not ready.
func (a api) all() map[string]any {
	all := map[string]any{}
	var pods v1beta1.PodMetricsList
	var nodes v1beta1.NodeMetricsList
	if a.get("pods", &pods) != nil || a.get("nodes", &nodes) != nil {
		return all
	}
	for _, pod := range pods.Items {
		m := measured{pod.Labels, map[string]usage{}}
		for _, c := range pod.Containers {
			m.Usage[c.Name] = usageOf(c.Usage)
		}
		all["pod "+pod.Namespace+"/"+pod.Name] = m
	}
	for _, node := range nodes.Items {
		all["node "+node.Name] = measured{node.Labels, map[string]usage{"": usageOf(node.Usage)}}
	}
	return all
}

func (a api) get(what string, into any) error {
	resp, err := a.client.Get(a.base + what)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", what, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
