package storage

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"
	apistorage "k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/testing"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
)

// variants are setups. All suites run in each variant. The variants run in parallel, each with its
// own etcd. The suites of a variant run one after another, because they count resourceVersions.
var variants = []struct {
	name  string
	setup setup
}{
	{"protobuf", setup{encoding: wire.Protobuf, indexed: true}},
	{"json", setup{encoding: wire.JSON}},
}

// suite is one of upstream's test suites.
type suite struct {
	name   string // name of the upstream function
	run    func(ctx context.Context, t *testing.T, w *world)
	change []func(*setup)
}

// reads returns a suite that needs only the storage.
func reads(name string, run func(context.Context, *testing.T, apistorage.Interface)) suite {
	return suite{name: name, run: func(ctx context.Context, t *testing.T, w *world) { run(ctx, t, w) }}
}

// pages returns a suite that can also check the number of requests to etcd. Reads send no request
// to etcd here, so pages passes nil for this check.
func pages(name string, run func(context.Context, *testing.T, apistorage.Interface, upstream.CallsValidation)) suite {
	return reads(name, func(ctx context.Context, t *testing.T, s apistorage.Interface) { run(ctx, t, s, nil) })
}

// with returns the suite with changes to its setup.
func (s suite) with(change ...func(*setup)) suite {
	s.change = change
	return s
}

func clustered(s *setup) { s.clustered = true }
func visible(s *setup)   { s.visible = true }
func alone(s *setup)     { s.alone = true }

var suites = []suite{
	reads("RunTestGet", upstream.RunTestGet).with(alone), // its objects expire

	{name: "RunTestList", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestList(ctx, t, w, w.compact, true, w.lists)
	}, change: []func(*setup){alone}},
	{name: "RunTestConsistentList", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestConsistentList(ctx, t, w, w.increase, true, true, true)
	}},
	{name: "RunTestGetListNonRecursive", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestGetListNonRecursive(ctx, t, w.increase, w)
	}},
	reads("RunTestGetListRecursivePrefix", upstream.RunTestGetListRecursivePrefix),
	pages("RunTestListContinuation", upstream.RunTestListContinuation),
	pages("RunTestListContinuationWithFilter", upstream.RunTestListContinuationWithFilter),
	pages("RunTestListPaginationRareObject", upstream.RunTestListPaginationRareObject),
	{name: "RunTestListInconsistentContinuation", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestListInconsistentContinuation(ctx, t, etcdsWays{w}, w.compact)
	}, change: []func(*setup){alone}},
	reads("RunTestListPaging", upstream.RunTestListPaging),
	reads("RunTestNamespaceScopedList", upstream.RunTestNamespaceScopedList),
	{name: "RunTestCompactRevision", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestCompactRevision(ctx, t, w, w.increase, w.compact)
	}, change: []func(*setup){alone}},

	reads("RunTestWatch", upstream.RunTestWatch),
	{name: "RunTestWatchFromZero", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestWatchFromZero(ctx, t, w, w.compact)
	}, change: []func(*setup){alone}},
	reads("RunTestWatchFromNonZero", upstream.RunTestWatchFromNonZero),
	reads("RunTestDeleteTriggerWatch", upstream.RunTestDeleteTriggerWatch),
	reads("RunTestDelayedWatchDelivery", upstream.RunTestDelayedWatchDelivery),
	reads("RunTestWatchContextCancel", upstream.RunTestWatchContextCancel),
	reads("RunTestWatcherTimeout", upstream.RunTestWatcherTimeout),
	reads("RunTestWatchDeleteEventObjectHaveLatestRV", upstream.RunTestWatchDeleteEventObjectHaveLatestRV),
	reads("RunTestWatchInitializationSignal", upstream.RunTestWatchInitializationSignal),
	reads("RunTestClusterScopedWatch", upstream.RunTestClusterScopedWatch).with(clustered),
	reads("RunTestNamespaceScopedWatch", upstream.RunTestNamespaceScopedWatch),
	{name: "RunTestWatchDispatchBookmarkEvents", run: func(ctx context.Context, t *testing.T, w *world) {
		upstream.RunTestWatchDispatchBookmarkEvents(ctx, t, w, true)
	}},
	reads("RunTestOptionalWatchBookmarksWithCorrectResourceVersion", upstream.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
	reads("RunSendInitialEventsBackwardCompatibility", upstream.RunSendInitialEventsBackwardCompatibility),
	reads("RunWatchSemantics", upstream.RunWatchSemantics).with(alone, visible).gated(),
	reads("RunWatchSemanticInitialEventsExtended", upstream.RunWatchSemanticInitialEventsExtended).with(visible).gated(),
	reads("RunWatchListMatchSingle", upstream.RunWatchListMatchSingle).with(visible).gated(),
}

// TestSuites runs upstream's suites of reads on the watch cache, in each variant.
func TestSuites(t *testing.T) {
	leaks := cluster.Leaks()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks...) })
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			etcd := startEtcd(t)
			for _, s := range suites {
				t.Run(s.name, func(t *testing.T) {
					if d, ok := differences[s.name]; ok && !inChild() {
						d.check(t)
						return
					}
					setup := v.setup
					setup.etcd = etcd
					for _, change := range s.change {
						change(&setup)
					}
					s.run(t.Context(), t, newWorld(t, setup))
				})
			}
		})
	}
}

// gates is locked while a suite changes a feature gate of the process. Only one suite may do that
// at a time.
var gates sync.Mutex

// gated returns the suite with a lock of gates while it runs.
func (s suite) gated() suite {
	run := s.run
	s.run = func(ctx context.Context, t *testing.T, w *world) {
		gates.Lock()
		t.Cleanup(gates.Unlock) // runs after the suite has restored the gate
		run(ctx, t, w)
	}
	return s
}
