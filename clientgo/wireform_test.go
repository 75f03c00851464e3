package clientgo

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// widget is the internal type of widgets. Its name is their kind in lower case.
type widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Teeth int
}

type widgetList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []widget
}

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*widget))
	}
	return &c
}

// internalWidgets returns a ListerWatcher of a capturing client whose codec converts widgets to the
// internal type.
func internalWidgets(t *testing.T, cfg *rest.Config) *cache.ListWatch {
	t.Helper()
	known := widgetScheme()
	internal := schema.GroupVersion{Group: widgetVersion.Group, Version: runtime.APIVersionInternal}
	known.AddKnownTypeWithName(internal.WithKind("Widget"), &widget{})
	known.AddKnownTypeWithName(internal.WithKind("WidgetList"), &widgetList{})
	check.NoError(t, known.AddConversionFunc((*WidgetList)(nil), (*widgetList)(nil), func(a, b any, _ conversion.Scope) error {
		from, to := a.(*WidgetList), b.(*widgetList)
		to.ListMeta = from.ListMeta
		for _, w := range from.Items {
			to.Items = append(to.Items, widget{ObjectMeta: w.ObjectMeta, Teeth: w.Spec.Teeth})
		}
		return nil
	}))
	cfg = capturing(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &widgetVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(known)
	client, err := rest.RESTClientFor(cfg)
	check.NoError(t, err)
	params := runtime.NewParameterCodec(known)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &widgetList{}
			err := client.Get().Resource("widgets").VersionedParams(&o, params).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Get().Resource("widgets").VersionedParams(&o, params).Watch(ctx)
		},
	}
}

// TestInternalType checks that an informer of an internal type receives its client codec's result.
func TestInternalType(t *testing.T) {
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			cfg := serveWidgets(t, &widgetServer{keys: []string{"kind", "apiVersion", "metadata", "items"}, widgets: 3})
			inf := make(noWatchList{internalWidgets(t, cfg)}, &widget{}, 0, cache.Indexers{})
			runSynced(t, inf)
			got, ok, err := inf.GetStore().GetByKey("shop/w2")
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if w := got.(*widget); w.Name != "w2" || w.UID != "u2" || w.Teeth != 2 {
				t.Errorf("holds %+v", w)
			}
		})
	}
}

// TestHasWireForm checks which types are captured.
func TestHasWireForm(t *testing.T) {
	type derived struct {
		corev1.Pod `json:",inline"`
		Note       string `json:"note"`
	}
	type named struct {
		metav1.TypeMeta
		Meta metav1.ObjectMeta
	}
	type tagged struct {
		Meta *metav1.ObjectMeta `json:"metadata"`
	}
	for _, of := range []any{&corev1.Pod{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}, &Widget{}, &derived{}, &tagged{}} {
		if !hasWireForm(reflect.TypeOf(of)) {
			t.Errorf("%T is not captured", of)
		}
	}
	for _, of := range []any{&widget{}, &named{}} {
		if hasWireForm(reflect.TypeOf(of)) {
			t.Errorf("%T is captured", of)
		}
	}
}
