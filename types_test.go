package weir_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// TestEnumerations checks that this package's constants equal the corresponding constants of the
// internal packages, because the code converts between them.
func TestEnumerations(t *testing.T) {
	for own, theirs := range map[any]any{
		weir.Added: store.Added, weir.Updated: store.Updated, weir.Deleted: store.Deleted, weir.Resynced: store.Resynced,

		weir.ModeAuto: reflector.Auto, weir.ModeList: reflector.List, weir.ModePages: reflector.Pages, weir.ModeWatchList: reflector.WatchList,

		weir.ConsistencyMostRecent: reflector.MostRecent, weir.ConsistencyAny: reflector.Any,

		weir.PhaseStarting: reflector.Starting, weir.PhaseAsking: reflector.Asking, weir.PhaseListing: reflector.Listing,
		weir.PhaseWatching: reflector.Watching, weir.PhaseWaiting: reflector.Waiting, weir.PhaseStopped: reflector.Stopped,

		weir.JSON: wire.JSON, weir.Protobuf: wire.Protobuf,
	} {
		if reflect.ValueOf(own).Uint() != reflect.ValueOf(theirs).Uint() {
			t.Errorf("%T %v is %d, %T %v is %d", own, own, own, theirs, theirs, theirs)
		}
	}
}

// TestSameMethods checks that a shared informer has the informer's methods except Run, and that an
// informer has the snapshot's methods.
func TestSameMethods(t *testing.T) {
	informer, lease, snapshot := reflect.TypeFor[*weir.Informer[*corev1.Pod]](), reflect.TypeFor[*weir.SharedInformer[*corev1.Pod]](), reflect.TypeFor[weir.Snapshot[*corev1.Pod]]()
	missing := func(from, in reflect.Type, but ...string) {
		t.Helper()
		allowed := map[string]bool{}
		for _, name := range but {
			allowed[name] = true
		}
		for m := range from.NumMethod() {
			has := from.Method(m)
			other, ok := in.MethodByName(has.Name)
			switch {
			case ok == allowed[has.Name]:
				t.Errorf("%v has %s: %t", in, has.Name, ok)
			case ok && !sameSignature(has.Type, other.Type):
				t.Errorf("%s is %v of %v, and %v of %v", has.Name, has.Type, from, other.Type, in)
			}
		}
	}
	missing(informer, lease, "Run")
	missing(snapshot, informer)
}

// sameSignature compares the signatures of two methods, without their receivers.
func sameSignature(a, b reflect.Type) bool {
	if a.NumIn() != b.NumIn() || a.NumOut() != b.NumOut() {
		return false
	}
	for i := 1; i < a.NumIn(); i++ {
		if a.In(i) != b.In(i) {
			return false
		}
	}
	for i := range a.NumOut() {
		if a.Out(i) != b.Out(i) {
			return false
		}
	}
	return true
}

// TestNoInternalTypes checks that the fields and methods of exported types use no type of an
// internal package. Users could not name such a type.
func TestNoInternalTypes(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, own := range []reflect.Type{
		reflect.TypeFor[weir.Options](), reflect.TypeFor[weir.HandlerOptions[*corev1.Pod]](), reflect.TypeFor[*weir.Informer[*corev1.Pod]](),
		reflect.TypeFor[*weir.SharedInformer[*corev1.Pod]](), reflect.TypeFor[weir.Snapshot[*corev1.Pod]](), reflect.TypeFor[weir.Event[*corev1.Pod]](),
		reflect.TypeFor[*weir.Factory](), reflect.TypeFor[*weir.Registration](), reflect.TypeFor[weir.Index](), reflect.TypeFor[clientgo.Options](),
	} {
		nameable(t, own, seen)
	}
}

// nameable fails the test for each internal type that a user can reach from typ through fields,
// methods and elements.
func nameable(t *testing.T, typ reflect.Type, seen map[reflect.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	const module = "github.com/weirproject/weir"
	switch path := typ.PkgPath(); {
	case strings.HasPrefix(path, module+"/internal/"):
		t.Errorf("%v can be reached, of %s", typ, path)
		return
	case path != "" && path != module && path != module+"/clientgo":
		return // a type of another module
	}
	for m := range typ.NumMethod() {
		if method := typ.Method(m); method.IsExported() {
			nameable(t, method.Type, seen)
		}
	}
	if typ.Name() != "" && typ.Kind() != reflect.Interface {
		nameable(t, reflect.PointerTo(typ), seen) // a caller can take the address of a value
	}
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		nameable(t, typ.Elem(), seen)
	case reflect.Map:
		nameable(t, typ.Key(), seen)
		nameable(t, typ.Elem(), seen)
	case reflect.Func:
		for i := range typ.NumIn() {
			nameable(t, typ.In(i), seen)
		}
		for i := range typ.NumOut() {
			nameable(t, typ.Out(i), seen)
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() || f.Anonymous {
				nameable(t, f.Type, seen)
			}
		}
	}
}
