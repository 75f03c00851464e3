package sim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// Widget is the Go type of the custom resource. It is like a type for which a code generator
// creates a client.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec `json:"spec,omitempty"`
}

// WidgetSpec is the desired state of a Widget.
type WidgetSpec struct {
	Node string `json:"node,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &c
}

var (
	widgetScheme = runtime.NewScheme()
	widgetCodecs = serializer.NewCodecFactory(widgetScheme)
)

func init() {
	gv := schema.GroupVersion{Group: api.Widgets.Group, Version: api.Widgets.Version}
	widgetScheme.AddKnownTypes(gv, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(widgetScheme, gv)
}

// widgetClient creates a client for Widgets, as generated code does.
func widgetClient(cfg *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(cfg)
	gv := schema.GroupVersion{Group: api.Widgets.Group, Version: api.Widgets.Version}
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, "/apis", widgetCodecs.WithoutConversion()
	return rest.RESTClientFor(c)
}
