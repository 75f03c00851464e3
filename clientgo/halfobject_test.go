package clientgo

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// halfObject implements only the methods of an API object that client-go's informers call, and
// GetLabels for the tests' recorder. Every other method of metav1.Object panics, because the
// embedded interface is nil.
type halfObject struct {
	metav1.Object
	namespace, name, version string
	uid                      types.UID // if it is empty, GetUID panics
	labels                   map[string]string
}

func (h *halfObject) GetNamespace() string         { return h.namespace }
func (h *halfObject) GetName() string              { return h.name }
func (h *halfObject) GetResourceVersion() string   { return h.version }
func (h *halfObject) GetLabels() map[string]string { return h.labels }
func (h *halfObject) GetUID() types.UID {
	if h.uid == "" {
		panic("not implemented")
	}
	return h.uid
}
func (h *halfObject) GetObjectKind() schema.ObjectKind    { panic("not implemented") }
func (h *halfObject) DeepCopyObject() runtime.Object      { panic("not implemented") }
func (h *halfObject) MarshalJSON() ([]byte, error)        { panic("not implemented") }
func (h *halfObject) UnmarshalJSON([]byte) error          { panic("not implemented") }
func (h *halfObject) GetAnnotations() map[string]string   { panic("not implemented") }
func (h *halfObject) GetObjectMeta() (none metav1.Object) { panic("not implemented") }

// slimObject can be encoded, unlike halfObject. Its metadata implements metav1.Object, but most
// methods of the metadata panic.
type slimObject struct {
	metav1.TypeMeta `json:",inline"`
	slimMeta        `json:"metadata"`
}

type slimMeta struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID
	Labels                           map[string]string
	metav1.Object                    `json:"-"`
}

func (m *slimMeta) GetNamespace() string         { return m.Namespace }
func (m *slimMeta) GetName() string              { return m.Name }
func (m *slimMeta) GetUID() types.UID            { return m.UID }
func (m *slimMeta) GetResourceVersion() string   { return m.ResourceVersion }
func (m *slimMeta) GetLabels() map[string]string { return m.Labels }
func (m *slimMeta) GetObjectMeta() metav1.Object { return m }

func (s *slimObject) DeepCopyObject() runtime.Object {
	c := *s
	return &c
}

// halfMade contains example objects for informers, by name. object builds such an object with a
// name, a version and the label v.
var halfMade = map[string]struct {
	example runtime.Object
	object  func(name, version, v string) runtime.Object
}{
	"with a uid": {&halfObject{}, func(name, version, v string) runtime.Object {
		return &halfObject{namespace: "d", name: name, version: version, uid: "uid-1", labels: map[string]string{"v": v}}
	}},
	"without a uid": {&halfObject{}, func(name, version, v string) runtime.Object {
		return &halfObject{namespace: "d", name: name, version: version, labels: map[string]string{"v": v}}
	}},
	"encoded": {&slimObject{}, func(name, version, v string) runtime.Object {
		return &slimObject{slimMeta: slimMeta{Namespace: "d", Name: name, ResourceVersion: version, UID: "uid-1", Labels: map[string]string{"v": v}}}
	}},
}

// TestHalfImplementedObjects uses objects that implement only the methods which client-go's
// informers call. The informer must store these objects and pass them to handlers.
func TestHalfImplementedObjects(t *testing.T) {
	makers := map[string]constructor{"client-go": newClientGo}
	for name, opts := range map[string]Options{
		"weir": {}, "private copies": {PrivateCopies: true}, "pinned": {PinDecoded: true}, "detecting mutation": {DetectMutation: true}, "shared": {ShareDecoded: true},
	} {
		makers[name] = withOptions(opts)
	}
	for kind, made := range halfMade {
		for transformed, transform := range identityOrNone {
			for maker, make := range makers {
				t.Run(kind+"/"+transformed+"/"+maker, func(t *testing.T) {
					tellOfHalfObjects(t, make, made.example, transform, made.object)
				})
			}
		}
	}
}

func tellOfHalfObjects(t *testing.T, make constructor, example runtime.Object, transform cache.TransformFunc, object func(name, version, v string) runtime.Object) {
	first, second := watch.NewFakeWithChanSize(10, false), watch.NewFakeWithChanSize(10, false)
	lists, watches := 0, 0
	lw := plainListerWatcher{
		list: func(o metav1.ListOptions) (runtime.Object, error) {
			if lists++; lists == 1 {
				return listOf("2", object("a", "1", "1"), object("b", "2", "1")), nil
			}
			return listOf("6", object("a", "6", "4"), object("c", "4", "1")), nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) {
			if watches++; watches == 1 {
				return first, nil
			}
			return second, nil
		},
	}
	inf := make(lw, example, 0, cache.Indexers{"v": func(obj any) ([]string, error) {
		return []string{obj.(metav1.Object).GetLabels()["v"]}, nil
	}})
	check.NoError(t, inf.SetTransform(transform))
	calls := observe(t, inf)
	run(t, inf)
	first.Modify(object("a", "3", "2"))
	first.Add(object("c", "4", "1"))
	first.Modify(object("a", "5", "3"))
	calls.wait(t, "update d/a@3 v=2 -> d/a@5 v=3")
	first.Error(statusOf(apierrors.NewResourceExpired("too old"))) // b was deleted and a has changed
	calls.wait(t, "delete tombstone d/b d/b@2 v=1")
	calls.wait(t, "update d/a@5 v=3 -> d/a@6 v=4")
	second.Delete(object("c", "7", "1"))
	calls.wait(t, "delete d/c@7 v=1")
	if found, err := inf.GetIndexer().ByIndex("v", "4"); err != nil || shown(found) != "d/a@6 v=4" {
		t.Errorf("the index has %s, %v", shown(found), err)
	}
	if err := inf.GetStore().Update(object("a", "8", "5")); err != nil || shown(inf.GetStore().List()) != "d/a@8 v=5" {
		t.Errorf("holds %s, %v", shown(inf.GetStore().List()), err)
	}
}

// listOf returns a list whose items may be any objects.
func listOf(version string, items ...runtime.Object) *corev1.List {
	list := &corev1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, item := range items {
		list.Items = append(list.Items, runtime.RawExtension{Object: item})
	}
	return list
}

// TestDeletedHalfObject checks the argument of OnDelete if the transform fails for the final state
// and the previous version cannot be copied: the argument must be the previous version, unchanged.
// Only a copy could get the resourceVersion of the deletion.
func TestDeletedHalfObject(t *testing.T) {
	events := watch.NewFakeWithChanSize(10, false)
	object := halfMade["with a uid"].object
	inf := NewSharedIndexInformer(plainListerWatcher{
		list:  func(metav1.ListOptions) (runtime.Object, error) { return listOf("2", object("a", "1", "1")), nil },
		watch: func(metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}, &halfObject{}, 0, nil)
	check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
		if obj.(*halfObject).version == "3" {
			return nil, errors.New("not this one")
		}
		return obj, nil
	}))
	calls := observe(t, inf)
	run(t, inf)
	events.Delete(object("a", "3", "2"))
	calls.wait(t, "delete d/a@1 v=1")
}
