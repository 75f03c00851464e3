package clientgo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// generated returns a ListerWatcher of widgets like that of a generated clientset.
func generated(t *testing.T, cfg *rest.Config) cache.ListerWatcher {
	client := widgetClient(t, cfg)
	params := runtime.NewParameterCodec(widgetScheme())
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &WidgetList{}
			err := client.Get().Resource("widgets").VersionedParams(&o, params).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Get().Resource("widgets").VersionedParams(&o, params).Watch(ctx)
		},
	}
}

// widgetReader is one way to build an informer of custom resources.
type widgetReader struct {
	name     string
	partial  bool
	protobuf bool // the client prefers protobuf; servers send custom resources as JSON
	build    func(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer
}

var widgetReaders = []widgetReader{
	{"generated", false, false, generatedInformer},
	{"generated, protobuf preferred", false, true, generatedInformer},
	{"NewListWatchFromClient", false, false, func(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
		lw := cache.NewListWatchFromClient(widgetClient(t, cfg), "widgets", "", fields.Everything())
		return bothConstructors[which](lw, &Widget{}, 0, nil)
	}},
	{"dynamic factory", false, false, func(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
		if which == "client-go" {
			return dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0).ForResource(widgetResource).Informer()
		}
		f := NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		return f.ForResource(widgetResource).Informer()
	}},
	{"dynamic client", false, false, func(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
		lw := listWatchOf(dynamic.NewForConfigOrDie(capturing(cfg)).Resource(widgetResource))
		return bothConstructors[which](lw, &unstructured.Unstructured{Object: map[string]any{"apiVersion": widgetVersion.String(), "kind": widgetKind.Kind}}, 0, nil)
	}},
	{"metadata factory", true, true, metadataOfFactory},
	{"metadata factory, whole objects come", false, true, metadataOfFactory},
	{"metadata client", true, true, func(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
		lw := listWatchOf(metadata.NewForConfigOrDie(capturing(cfg)).Resource(widgetResource))
		return bothConstructors[which](lw, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: widgetVersion.String(), Kind: "Widget"}}, 0, nil)
	}},
}

func generatedInformer(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
	return bothConstructors[which](generated(t, cfg), &Widget{}, 0, nil)
}

func metadataOfFactory(t *testing.T, cfg *rest.Config, which string) cache.SharedIndexInformer {
	if which == "client-go" {
		return metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0).ForResource(widgetResource).Informer()
	}
	f := NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0)
	return f.ForResource(widgetResource).Informer()
}

// TestListsInAnyKeyOrder serves lists with each order of the JSON keys. client-go's informer and
// Weir's must store the list's objects. Weir's informer must send one LIST and capture the
// response, so the client must be able to decode the stub.
func TestListsInAnyKeyOrder(t *testing.T) {
	for _, reader := range widgetReaders {
		for which := range bothConstructors {
			t.Run(reader.name+", "+which, func(t *testing.T) {
				for _, keys := range keyOrders() {
					for _, n := range []int{0, 3} {
						t.Run(fmt.Sprint(strings.Join(keys, " "), ", ", n, " items"), func(t *testing.T) {
							listInKeyOrder(t, reader, which, &widgetServer{keys: keys, widgets: n, partial: reader.partial})
						})
					}
				}
			})
		}
	}
}

func listInKeyOrder(t *testing.T, reader widgetReader, which string, server *widgetServer) {
	cfg := serveWidgets(t, server)
	if reader.protobuf {
		cfg.ContentType = runtime.ContentTypeProtobuf
		cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	inf := reader.build(t, cfg, which)
	runSynced(t, inf)
	want := ""
	for i := range server.widgets {
		want += fmt.Sprintf("shop/w%d@7 v=\n", i)
	}
	if got := shown(inf.GetStore().List()); got != strings.TrimSpace(want) {
		t.Errorf("holds\n%s\nwant\n%s", got, want)
	}
	if ours, ok := inf.(*informer); ok {
		check.Equal(t, server.lists.Load(), 1, "LISTs")
		if read := ours.stats.BodyBytes.Load(); read < int64(len(server.list())) {
			t.Errorf("not captured: %d bytes were read here", read)
		}
	}
}

// protobufOnly is the serializer of a client that can decode only protobuf.
type protobufOnly struct{ runtime.NegotiatedSerializer }

func (p protobufOnly) SupportedMediaTypes() []runtime.SerializerInfo {
	for _, info := range p.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf {
			return []runtime.SerializerInfo{info}
		}
	}
	return nil
}

// TestClientOfFewTypes uses a client whose scheme contains only pods and the types that every
// client needs. This client must be able to decode the stub response. The client must also succeed
// if it cannot decode JSON.
func TestClientOfFewTypes(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 20})
	few := runtime.NewScheme()
	few.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &metav1.WatchEvent{}, &metav1.Status{})
	codecs := serializer.NewCodecFactory(few).WithoutConversion()
	for _, tc := range []struct {
		contentType string
		serializer  runtime.NegotiatedSerializer
	}{
		{runtime.ContentTypeJSON, codecs},
		{runtime.ContentTypeProtobuf, codecs},
		{runtime.ContentTypeProtobuf, protobufOnly{codecs}},
	} {
		t.Run(fmt.Sprintf("%s, %T", tc.contentType, tc.serializer), func(t *testing.T) {
			cfg := capturing(server.Config())
			cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
			cfg.ContentType, cfg.NegotiatedSerializer = tc.contentType, tc.serializer
			client, err := rest.RESTClientFor(cfg)
			check.NoError(t, err)
			inf := NewSharedIndexInformer(cache.NewListWatchFromClient(client, "pods", "d", fields.Everything()), &corev1.Pod{}, 0, nil).(*informer)
			calls := observe(t, inf)
			stop := run(t, inf)
			ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
			defer cancel()
			check.NoError(t, WaitForSync(ctx, inf))
			check.Equal(t, len(inf.GetStore().List()), 0, "pods")
			pods := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("d")
			made, err := pods.Create(ctx, pod("a", "1"), metav1.CreateOptions{})
			check.NoError(t, err)
			calls.wait(t, "add "+show(made))
			if inf.listWatch.noCapture.Load() {
				t.Error("not captured")
			}
			stop()
			check.NoError(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
		})
	}
}

// TestLongFirstItem reads a list that states its kinds only after more than maxTypeMetaPrefix
// bytes. readListTypeMeta must return no kind, and its reader must still return the whole list.
func TestLongFirstItem(t *testing.T) {
	body := `{"items":[{"spec":"` + strings.Repeat("long ", maxTypeMetaPrefix/4) + `","kind":"Widget"}],"kind":"WidgetList"}`
	types, whole, err := readListTypeMeta(strings.NewReader(body), wire.JSON)
	check.NoError(t, err)
	if !types.isUnknown() {
		t.Errorf("is of %+v", types)
	}
	read, err := io.ReadAll(whole)
	check.NoError(t, err)
	if string(read) != body {
		t.Errorf("%d bytes of %d come back, or others", len(read), len(body))
	}
}
