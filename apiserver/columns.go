package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/serve/watchcache"
)

// columns are the columns of tables in addition to Name and Age.
var columns = map[schema.GroupVersionKind][]watchcache.Column{
	{Version: "v1", Kind: "Pod"}: {
		{Name: "Ready", Type: "string", Cell: podCell(podReady)},
		{Name: "Status", Type: "string", Cell: podCell(podStatus)},
		{Name: "Restarts", Type: "string", Cell: podCell(podRestarts)},
		{Name: "IP", Type: "string", Wide: true, Cell: podCell(func(p *corev1.Pod) string { return orNone(p.Status.PodIP) })},
		{Name: "Node", Type: "string", Wide: true, Cell: podCell(func(p *corev1.Pod) string { return orNone(p.Spec.NodeName) })},
	},
	{Version: "v1", Kind: "Namespace"}: {
		{Name: "Status", Type: "string", Cell: func(o any) any {
			if ns, ok := o.(*corev1.Namespace); ok {
				return string(ns.Status.Phase)
			}
			return ""
		}},
	},
}

func podCell(f func(*corev1.Pod) string) func(any) any {
	return func(o any) any {
		if p, ok := o.(*corev1.Pod); ok {
			return f(p)
		}
		return ""
	}
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func podReady(p *corev1.Pod) string {
	ready := 0
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Ready {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers))
}

func podRestarts(p *corev1.Pod) string {
	restarts := int32(0)
	for i := range p.Status.ContainerStatuses {
		restarts += p.Status.ContainerStatuses[i].RestartCount
	}
	return fmt.Sprint(restarts)
}

// podStatus returns the text of kubectl's STATUS column.
func podStatus(p *corev1.Pod) string {
	status := string(p.Status.Phase)
	if p.Status.Reason != "" {
		status = p.Status.Reason
	}
	for i := range p.Status.ContainerStatuses {
		state := &p.Status.ContainerStatuses[i].State
		switch {
		case state.Waiting != nil && state.Waiting.Reason != "":
			status = state.Waiting.Reason
		case state.Terminated != nil && state.Terminated.Reason != "":
			status = state.Terminated.Reason
		}
	}
	if p.DeletionTimestamp != nil {
		status = "Terminating"
	}
	return status
}
