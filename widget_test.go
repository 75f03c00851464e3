package weir_test

import (
	"context"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/apiserver"
)

// Widget is a custom resource as users write it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec WidgetSpec `json:"spec"`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Teeth int `json:"teeth"`
}

// DeepCopyObject makes a Widget a runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

var widgetVersion = schema.GroupVersion{Group: "shop.example", Version: "v1"}

func widgetScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(widgetVersion, &Widget{})
	return s
}

// serveWidgets adds the resource to the server, under a plural that cannot be guessed, and one
// object.
func serveWidgets(ctx context.Context, server *apiserver.Server) {
	resource := widgetVersion.WithResource("widgetry")
	err := server.Register(apiserver.Resource{GroupVersionResource: resource, Kind: "Widget", Namespaced: true})
	if err != nil {
		log.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(server.Config())
	_, err = client.Resource(resource).Namespace("shop").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetVersion.String(),
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "gear"},
		"spec":       map[string]any{"teeth": int64(12)},
	}}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
}
