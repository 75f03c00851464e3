package main

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var served = []*metav1.APIResourceList{
	{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "pods", SingularName: "pod", ShortNames: []string{"po"}, Kind: "Pod", Namespaced: true, Verbs: watchable},
		{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
		{Name: "nodes", SingularName: "node", ShortNames: []string{"no"}, Kind: "Node", Verbs: watchable},
		{Name: "configmaps", SingularName: "configmap", ShortNames: []string{"cm"}, Kind: "ConfigMap", Namespaced: true, Verbs: watchable},
		{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
	}},
	{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
		{Name: "deployments", SingularName: "deployment", ShortNames: []string{"deploy"}, Kind: "Deployment", Namespaced: true, Verbs: watchable},
	}},
	{GroupVersion: "autoscaling/v2", APIResources: []metav1.APIResource{
		{Name: "scalers", SingularName: "scaler", ShortNames: []string{"hpa"}, Kind: "PodScaler", Namespaced: true, Verbs: watchable},
	}},
	{GroupVersion: "autoscaling/v1", APIResources: []metav1.APIResource{
		{Name: "scalers", SingularName: "scaler", ShortNames: []string{"hpa"}, Kind: "PodScaler", Namespaced: true, Verbs: watchable},
		// A resource as older servers return it, without its singular name.
		{Name: "policies", Kind: "Policy", Namespaced: true, Verbs: watchable},
	}},
	{GroupVersion: "metrics.example.com/v1", APIResources: []metav1.APIResource{
		{Name: "pods", SingularName: "pod", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
		{Name: "po", Kind: "Shadow", Namespaced: true, Verbs: watchable},
	}},
	{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
		{Name: "widgets", SingularName: "widget", ShortNames: []string{"wd"}, Kind: "Widget", Namespaced: true, Verbs: watchable},
	}},
}

var watchable = metav1.Verbs{"get", "list", "watch"}

func TestFindResource(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	scalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "scalers"}
	older := schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "scalers"}
	for _, tc := range []struct {
		typed  string
		want   schema.GroupVersionResource
		global bool
		err    error
		text   string
	}{
		{typed: "pods", want: pods},
		{typed: "pod", want: pods},
		// A full name has priority over a short name.
		{typed: "po", want: schema.GroupVersionResource{Group: "metrics.example.com", Version: "v1", Resource: "po"}},
		{typed: "Pod", want: pods},
		{typed: "pods.v1.", want: pods},
		{typed: "no", want: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, global: true},
		{typed: "deploy", want: deployments},
		{typed: "deployments.apps", want: deployments},
		{typed: "deployments.v1.apps", want: deployments},
		{typed: "Deployment.v1.apps", want: deployments},
		{typed: "wd", want: widgets},
		{typed: "wd.example.com", want: widgets},
		{typed: "widgets.example.com", want: widgets},
		{typed: "widget.v1.example.com", want: widgets},
		{typed: "hpa", want: scalers},
		{typed: "hpa.autoscaling", want: scalers},
		{typed: "hpa.v1.autoscaling", want: older},
		{typed: "podscaler", want: scalers},
		{typed: "PodScaler.v1.autoscaling", want: older},
		{typed: "scalers.auto", want: scalers},
		{typed: "scalers.v1.auto", want: older},
		{typed: "policy", want: schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "policies"}},
		{typed: "pods.metrics.example.com", err: errNotWatchable, text: `the resource cannot be listed and watched: pods.metrics.example.com`},
		{typed: "hpa.v3.autoscaling", err: errUnknownResource, text: `the server has no such resource: "hpa.v3.autoscaling"; did you mean "scalers.autoscaling"?`},
		{typed: "podz", err: errUnknownResource, text: `the server has no such resource: "podz"; did you mean "pods"?`},
		{typed: "pdos", err: errUnknownResource, text: `the server has no such resource: "pdos"; did you mean "pods"?`},
		{typed: "widgts.example.com", err: errUnknownResource,
			text: `the server has no such resource: "widgts.example.com"; did you mean "widgets.example.com"?`},
		{typed: "gadgets", err: errUnknownResource, text: `the server has no such resource: "gadgets"; did you mean "widgets"?`},
		{typed: "certificates", err: errUnknownResource, text: `the server has no such resource: "certificates"`},
		{typed: "bindings", err: errNotWatchable, text: `the resource cannot be listed and watched: bindings`},
	} {
		t.Run(tc.typed, func(t *testing.T) {
			got, err := findResource(served, tc.typed)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err != nil {
				if err.Error() != tc.text {
					t.Fatalf("error %q, want %q", err, tc.text)
				}
				return
			}
			if got.GroupVersionResource != tc.want || got.Namespaced == tc.global {
				t.Fatalf("got %v namespaced %t, want %v namespaced %t", got.GroupVersionResource, got.Namespaced, tc.want, !tc.global)
			}
		})
	}
}
