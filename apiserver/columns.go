package apiserver

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/serve/watchcache"
)

// columns contains, for each kind, the columns that a Table of its objects has in addition to Name
// and Age.
var columns = map[schema.GroupVersionKind][]watchcache.Column{
	{Version: "v1", Kind: "Pod"}: {
		{Name: "Ready", Type: "string", Cell: cell(podReady)},
		{Name: "Status", Type: "string", Cell: cell(podStatus)},
		{Name: "Restarts", Type: "string", Cell: cell(podRestarts)},
		{Name: "IP", Type: "string", Wide: true, Cell: cell(func(p *corev1.Pod) string { return cmp.Or(p.Status.PodIP, "<none>") })},
		{Name: "Node", Type: "string", Wide: true, Cell: cell(func(p *corev1.Pod) string { return cmp.Or(p.Spec.NodeName, "<none>") })},
	},
	{Version: "v1", Kind: "Namespace"}: {
		{Name: "Status", Type: "string", Cell: cell(func(ns *corev1.Namespace) string { return string(ns.Status.Phase) })},
	},
}

// cell returns a Column.Cell for objects of type T. For other objects, the cell is empty.
func cell[T any](f func(T) string) func(any) any {
	return func(o any) any {
		if object, ok := o.(T); ok {
			return f(object)
		}
		return ""
	}
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
	status := cmp.Or(p.Status.Reason, string(p.Status.Phase))
	for i := range p.Status.ContainerStatuses {
		state := &p.Status.ContainerStatuses[i].State
		if state.Waiting != nil && state.Waiting.Reason != "" {
			status = state.Waiting.Reason
		} else if state.Terminated != nil && state.Terminated.Reason != "" {
			status = state.Terminated.Reason
		}
	}
	if p.DeletionTimestamp != nil {
		status = "Terminating"
	}
	return status
}
