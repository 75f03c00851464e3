//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/testing/check"
)

// foreign is a wrapper of client-go's informer, like one that another package may define.
type foreign struct{ cache.SharedIndexInformer }

// TestAdopt checks which informers Adopt and a factory's InformerFor replace: informers of
// client-go without handlers, and no informers of another package.
func TestAdopt(t *testing.T) {
	theirs := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	}
	handled := theirs()
	register(t, handled, newRecorder())
	for name, test := range map[string]struct {
		built   cache.SharedIndexInformer
		adopted bool
	}{
		"unused":         {theirs(), true},
		"with a handler": {handled, false},
		"wrapped":        {foreign{theirs()}, false},
		"ours":           {NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil), false},
	} {
		f := newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"})
		for how, got := range map[string]cache.SharedIndexInformer{
			"Adopt":       Adopt(test.built),
			"InformerFor": f.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return test.built }),
		} {
			if _, ours := got.(*informer); (got != test.built) != test.adopted || test.adopted && !ours {
				t.Errorf("%s, %s: became %T", name, how, got)
			}
		}
	}
}

// TestAdoptsAllFields checks that an adopted informer keeps the resync period and the description
// of client-go's informer. It also checks that knownFields contains all fields of the linked
// client-go's informers.
func TestAdoptsAllFields(t *testing.T) {
	built := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods", ResyncPeriod: time.Hour})
	inf, ok := adopt(built, "", Options{}).(*informer)
	if !ok || inf.name != "my pods" || inf.defaultResync != time.Hour {
		t.Fatalf("%T with the description %q", inf, inf.name)
	}
	// The engine's errors contain the informer's name.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = inf.engine.Run(ctx)
	if err := inf.engine.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "my pods: ") {
		t.Errorf("the engine says %v", err)
	}
	with, ok := AdoptWithOptions(built, Options{PinDecoded: true, Server: &weir.ServerGroup{}}).(*informer)
	if !ok || !with.sink.pin || with.name != "my pods" {
		t.Errorf("with options it became %T", with)
	}
	for f := range informerStruct(built).Type().Fields() {
		if !slices.Contains(knownFields, f.Name) {
			t.Errorf("client-go's informers have a field that is not known here: %s", f.Name)
		}
	}
}

// laterInformer is client-go's informer with fields of a later release.
type laterInformer struct {
	synced      chan struct{}
	workerCount int
	limits      []string
	filter      func() error
	next        *laterInformer
}

// TestUnknownField checks which field differs between an informer and another one that client-go
// builds from the same arguments.
func TestUnknownField(t *testing.T) {
	build := func() *laterInformer {
		return &laterInformer{make(chan struct{}), 1, []string{"a"}, newAnError, &laterInformer{workerCount: 2}}
	}
	for want, set := range map[string]func(*laterInformer){
		"":            func(i *laterInformer) { i.synced = nil }, // is known
		"workerCount": func(i *laterInformer) { i.workerCount = 3 },
		"limits":      func(i *laterInformer) { i.limits = []string{"b"} },
		"filter":      func(i *laterInformer) { i.filter = nil },
		"next":        func(i *laterInformer) { i.next.workerCount++ },
	} {
		inf := build()
		set(inf)
		check.Equal(t, unknownField(reflect.ValueOf(inf).Elem(), reflect.ValueOf(build()).Elem()), want)
	}
}

func newAnError() error { return errors.New("an error") }

// TestUnknownFieldRemains checks that Adopt returns an informer unchanged if it has an unknown
// field with another value than the constructor sets, and that Err and WaitForSync report it.
func TestUnknownFieldRemains(t *testing.T) {
	i := slices.Index(knownFields, "resyncCheckPeriod")
	knownFields[i] = "later"
	defer func() { knownFields[i] = "resyncCheckPeriod" }()
	plain := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, time.Hour, nil)
	if _, ours := Adopt(plain).(*informer); !ours {
		t.Error("an unknown field with the constructor's value prevents adoption")
	}
	built := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, time.Hour, nil)
	field, _ := private.Field(informerStruct(built), "resyncCheckPeriod")
	field.SetInt(1)
	before := registry.Unadopted()["resyncCheckPeriod"]
	got := Adopt(built)
	unknown, ok := errors.AsType[*UnknownFieldError](Err(got))
	if got != built || !ok || unknown.Field != "resyncCheckPeriod" || unknown.Informer != "*v1.Pod" || !errors.Is(Err(got), ErrForeignInformer) {
		t.Errorf("became %T, %v", got, Err(got))
	}
	check.Equal(t, WaitForSync(t.Context(), got), error(unknown))
	check.Equal(t, registry.Unadopted()["resyncCheckPeriod"], before+1, "counted")
}

type limiter struct {
	flowcontrol.RateLimiter
	waited atomic.Int32
}

func (l *limiter) Wait(context.Context) error { l.waited.Add(1); return nil }

// TestKeepsRateLimits checks that a factory uses the rate limiter of its client.
func TestKeepsRateLimits(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	cfg := server.Config()
	cfg.QPS, cfg.RateLimiter = 0, &limiter{}
	f := newFactory(t, cfg)
	f.Core().V1().Pods().Informer()
	begin(t, f)
	if cfg.RateLimiter.(*limiter).waited.Load() == 0 {
		t.Error("the rate limiter was not asked")
	}
}

// reflectorsDescription runs an informer whose lists fail. It returns the description of the listed
// objects from the Reflector that the watch error handler receives. client-go's default handler
// logs this description.
func reflectorsDescription(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var description string
	check.NoError(t, inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
		if cancel(); description == "" {
			description = r.TypeDescription()
		}
	}))
	inf.RunWithContext(ctx)
	return description
}

// TestReflectorsDescription checks which description of the listed objects watch error handlers
// receive. As in client-go, it is the informer's description or, if the informer has none, the
// example's type. For informers of the metadata factory, which have no description in client-go, it
// is the resource.
func TestReflectorsDescription(t *testing.T) {
	cfg := &rest.Config{Host: "http://server", Transport: notServed{}}
	typed, byResource, partial := kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg), metadata.NewForConfigOrDie(cfg)
	described := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods"})
	}
	for name, test := range map[string]struct {
		ours, theirs cache.SharedIndexInformer
		want         string
	}{
		"typed": {
			NewSharedInformerFactoryWithOptions(typed, 0).Core().V1().ConfigMaps().Informer(),
			informers.NewSharedInformerFactory(typed, 0).Core().V1().ConfigMaps().Informer(), "*v1.ConfigMap",
		},
		"dynamic": {
			NewDynamicSharedInformerFactory(byResource, 0).ForResource(configMaps).Informer(),
			dynamicinformer.NewDynamicSharedInformerFactory(byResource, 0).ForResource(configMaps).Informer(), "/v1, Resource=configmaps",
		},
		"metadata":  {ours: NewMetadataSharedInformerFactory(partial, 0).ForResource(configMaps).Informer(), want: "/v1, Resource=configmaps"},
		"described": {Adopt(described()), described(), "my pods"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.theirs != nil {
				check.Equal(t, reflectorsDescription(t, test.theirs), test.want, "client-go lists")
			}
			check.Equal(t, reflectorsDescription(t, test.ours), test.want, "lists")
		})
	}
}
