package clientgo

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// isolatedInformers build informers of pods: client-go's, and Weir's with each way to store and
// deliver objects without ShareDecoded. In each of these informers, two objects, or two versions of
// one object, share nothing mutable.
var isolatedInformers = map[string]func(t *testing.T, cfg *rest.Config) cache.SharedIndexInformer{
	"client-go": func(_ *testing.T, cfg *rest.Config) cache.SharedIndexInformer {
		return newClientGo(podsOf(cfg), &corev1.Pod{}, 0, nil)
	},
	"protobuf": withContentType(kruntime.ContentTypeProtobuf, Options{}),
	"JSON":     withContentType(kruntime.ContentTypeJSON, Options{}),
	"pinned":   withContentType(kruntime.ContentTypeProtobuf, Options{PinDecoded: true}),
	"private":  withContentType(kruntime.ContentTypeProtobuf, Options{PrivateCopies: true}),
	"returned": withContentType(kruntime.ContentTypeProtobuf, Options{NoCapture: true}),
	"unstructured": func(t *testing.T, cfg *rest.Config) cache.SharedIndexInformer {
		f := NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		return f.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
	"metadata": func(t *testing.T, cfg *rest.Config) cache.SharedIndexInformer {
		f := NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0)
		return f.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
}

func withContentType(contentType string, opts Options) func(*testing.T, *rest.Config) cache.SharedIndexInformer {
	return func(_ *testing.T, cfg *rest.Config) cache.SharedIndexInformer {
		cfg = capturing(cfg)
		cfg.ContentType = contentType
		return NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, 0, nil, opts)
	}
}

// TestNothingMutableIsShared checks that a handler that changes one version of an object changes
// neither another object nor another version: not the previous version, not the next version, and
// not the argument of OnDelete.
func TestNothingMutableIsShared(t *testing.T) {
	for name, build := range isolatedInformers {
		t.Run(name, func(t *testing.T) {
			server := serve(t, apiserver.Options{})
			pods := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("d")
			ctx := context.Background()
			sim := podsim.New(4, 1) // pods of one workload
			var names []string
			for i := range sim.Len() {
				p := sim.Pod(i)
				p.Namespace, p.ResourceVersion = "d", ""
				if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				names = append(names, p.Name)
			}
			inf := build(t, server.Config())
			handler := &scribbler{t: t, recorder: newRecorder(), held: name == "pinned"}
			register(t, inf, handler)
			runSynced(t, inf)
			handler.waitCount(t, len(names))

			read, ok, err := inf.GetStore().GetByKey("d/" + names[0])
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			testenv.ScribbleOver(read)
			for _, other := range names[1:] {
				obj, ok, err := inf.GetStore().GetByKey("d/" + other)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				isClean(t, "another object", obj)
			}
			for i := range 4 {
				for _, name := range names {
					p, err := pods.Get(ctx, name, metav1.GetOptions{})
					check.NoError(t, err)
					p.Status.Message = strconv.Itoa(i)
					if p, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
					handler.wait(t, "update "+p.Name+" "+p.ResourceVersion)
				}
			}
			for _, name := range names {
				check.NoError(t, pods.Delete(ctx, name, metav1.DeleteOptions{}))
				handler.wait(t, "delete "+name)
			}
		})
	}
}

// isClean fails the test if obj contains the text that scribbler writes into objects.
func isClean(t *testing.T, what string, obj any) {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil || strings.Contains(string(text), "scribbled") {
		t.Errorf("%s has changed: %s, %v", what, text, err)
	}
}

// scribbler is a handler that changes objects: the old version of each update, and every second new
// version. It checks that added objects, new versions and deleted objects are unchanged when it
// receives them. It does not check old versions: it may have changed them as new versions.
type scribbler struct {
	t *testing.T
	*recorder
	held bool // readers have the same pointers, so only old versions may be changed
}

func name(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err.Error()
	}
	return m.GetName()
}

func (s *scribbler) OnAdd(obj any, _ bool) {
	isClean(s.t, "an addition", obj)
	s.note("add %s", name(obj))
}

func (s *scribbler) OnUpdate(old, obj any) {
	isClean(s.t, "the new version", obj)
	m, err := meta.Accessor(obj)
	if err != nil {
		s.t.Error(err)
	}
	line := "update " + m.GetName() + " " + m.GetResourceVersion()
	testenv.ScribbleOver(old)
	isClean(s.t, "with the old version the new one", obj)
	if n, _ := strconv.Atoi(m.GetResourceVersion()); n%2 == 0 && !s.held {
		testenv.ScribbleOver(obj)
	}
	s.note("%s", line)
}

func (s *scribbler) OnDelete(obj any) {
	isClean(s.t, "what was deleted", obj)
	s.note("delete %s", name(obj))
}
