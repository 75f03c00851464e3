package informertest_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// sabotage is a change that makes an informer violate a requirement, with the names of the stories
// that must then fail.
type sabotage struct {
	name    string
	make    maker // nil means Weir's typed informer
	config  func(*rest.Config)
	options func(*informertest.Options)
	native  func(*weir.Options)
	wrap    func(informertest.Informer) informertest.Informer
	noticed []string
}

type maker func(*rest.Config, informertest.Options) (informertest.Informer, error)

// sabotages are changes of Weir's informers. An unchanged informer passes all stories that a
// sabotage names.
var sabotages = []sabotage{
	{
		name: "deletions are not told",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			h.Deleted = nil
			return h
		}),
		noticed: []string{"AddUpdateDelete", "ResyncAmongChanges", "GoneEvent", "GoneStatus", "DeletedUnseen", "RelistBroken", "RelistIsWhole",
			"DownForLong", "ForbiddenLater", "TooLargeVersion", "InternalErrors", "WatchEndsAtOnce", "ManyHandlers", "BlockedHandlerCatchesUp", "UndecodableThenDeleted", "DeletedFinalState"},
	},
	{
		name: "objects that are created later are not delivered",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			added := h.Added
			h.Added = func(p *corev1.Pod, initial bool) {
				if initial {
					added(p, initial)
				}
			}
			return h
		}),
		noticed: []string{"RecreatedUnseen"},
	},
	{
		name: "objects are delivered with another content",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			added := h.Added
			h.Added = func(p *corev1.Pod, initial bool) { added(misplaced(p), initial) }
			return h
		}),
		noticed: []string{"FirstList", "ManyHandlers"},
	},
	{
		name: "updates are delivered with another content",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			updated := h.Updated
			h.Updated = func(old, p *corev1.Pod) { updated(old, misplaced(p)) }
			return h
		}),
		noticed: []string{"AddUpdateDelete", "BurstInOrder", "StoredBeforeDelivered", "GoneEvent"},
	},
	{
		name: "old versions are delivered with another content",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			updated := h.Updated
			h.Updated = func(old, p *corev1.Pod) { updated(misplaced(old), p) }
			return h
		}),
		noticed: []string{"AddUpdateDelete", "BurstInOrder", "GoneStatus"},
	},
	{
		name:    "deleted objects are delivered with another content",
		wrap:    handlers(misplacesDeleted),
		noticed: []string{"AddUpdateDelete", "ManyHandlers", "DeletedUnseen", "GoneEvent"},
	},
	{
		name:    "final states are delivered with another content",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		wrap:    handlers(misplacesDeleted),
		noticed: []string{"AddUpdateDelete"},
	},
	{
		name:    "a handler has synced when nothing more waits for it",
		wrap:    func(inf informertest.Informer) informertest.Informer { return idleSync{inf} },
		noticed: []string{"SyncedUnderChurn"},
	},
	{
		name: "additions are delivered twice",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			added := h.Added
			h.Added = func(p *corev1.Pod, initial bool) { added(p, initial); added(p, initial) }
			return h
		}),
		noticed: []string{"FirstList", "EmptyList", "HandlerDuringFirstList", "FirstListBroken", "RunTwice", "PassedUnseen"},
	},
	{
		name: "nothing is initial",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			added := h.Added
			h.Added = func(p *corev1.Pod, _ bool) { added(p, false) }
			return h
		}),
		noticed: []string{"FirstList", "LateHandler"},
	},
	{
		name: "updates tell the new version as the old one",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			updated := h.Updated
			h.Updated = func(_, p *corev1.Pod) { updated(p, p) }
			return h
		}),
		noticed: []string{"UndecodableThenGood", "BurstInOrder", "BlockedHandlerCatchesUp", "WatchBroken", "WatchBrokenMidEvent", "GarbledEvent"},
	},
	{
		name: "handlers are called one at a time, all of them",
		wrap: func(inf informertest.Informer) informertest.Informer {
			turn := make(chan struct{}, 1)
			return handlers(func(h informertest.Handler) informertest.Handler { return inTurn(h, turn) })(inf)
		},
		noticed: []string{"SlowHandlerDelaysNoOther"},
	},
	{
		name:    "everything has synced always",
		wrap:    func(inf informertest.Informer) informertest.Informer { return hasty{inf} },
		noticed: []string{"NotSyncedHalfWay", "StopBeforeSync", "HandlerDuringFirstList", "HandlerSyncIsItsOwn", "EndlesslyBroken", "ForbiddenIsAnError"},
	},
	{
		name:    "nothing is held",
		wrap:    func(inf informertest.Informer) informertest.Informer { return empty{inf} },
		noticed: []string{"StoredBeforeDelivered", "SlowHandlerKeepsTheWatch", "IndexFromStart", "StrangeEvent", "StopFreesEverything", "ListKeysInAnyOrder"},
	},
	{
		name:    "indexes give nothing",
		wrap:    func(inf informertest.Informer) informertest.Informer { return indexless{inf} },
		noticed: []string{"IndexFromStart", "IndexAddedLater", "IndexNameTaken", "BlockedIndexFunction"},
	},
	{
		name:    "removed handlers are called on, handlers are taken after the stop",
		wrap:    func(inf informertest.Informer) informertest.Informer { return clinging{inf} },
		noticed: []string{"RemovedHandler", "HandlerRemovesItself", "HandlerAfterStop"},
	},
	{
		name:    "the stop takes its time",
		wrap:    func(inf informertest.Informer) informertest.Informer { return lingering{inf} },
		noticed: []string{"StopBeforeSync", "StopInAnswer", "StopInBackoff", "RunTwice"},
	},
	{
		name:    "the stop is not heard",
		wrap:    func(inf informertest.Informer) informertest.Informer { return deaf{inf} },
		noticed: []string{"StopOneOfTwo", "StopBeforeSync", "HandlerAfterStop"},
	},
	{
		name:    "late handlers are not told the state",
		wrap:    func(inf informertest.Informer) informertest.Informer { return forgetful{inf} },
		noticed: []string{"LateHandler", "HandlerAddsHandler", "RemovedHandler"},
	},
	{
		name:    "a list that fails is an empty one",
		config:  roundTrips(emptied),
		noticed: []string{"RelistBroken", "FirstListBroken", "EndlesslyBroken", "ForbiddenIsAnError"},
	},
	{
		name:    "there is never an error",
		wrap:    func(inf informertest.Informer) informertest.Informer { return silent{inf} },
		noticed: []string{"ForbiddenIsAnError", "ForbiddenIsNoTimeout", "ForbiddenLater", "ErrorEnds", "UnknownResource", "Unauthorized", "OutageIsAnError"},
	},
	{
		name:    "the first failure is the end",
		wrap:    func(inf informertest.Informer) informertest.Informer { return fragile{inf} },
		noticed: []string{"DownAtStart", "DownForLong", "ForbiddenThenGranted", "UnknownResource", "Unauthorized", "TooManyRequests", "InternalErrors", "HangingRequest", "StalledList", "WebPage", "EndlessTooOld", "ExpiredContinueToken", "TooLargeVersion"},
	},
	{
		name:    "resyncs come by themselves",
		options: func(o *informertest.Options) { o.Resync = max(o.Resync, 30*time.Second) / 2 },
		noticed: []string{"ResyncReplays", "ResyncOff", "ResyncPerHandler"},
	},
	{
		name:    "every request is made a hundred times",
		config:  roundTrips(hundredfold),
		noticed: []string{"RefusedWithPatience", "EndlessTooOld", "EndlesslyBroken", "WatchEndsAtOnce", "WatchEnded", "TooManyRequests"},
	},
	{
		name:    "watches begin at the state and not where they should",
		config:  roundTrips(fromNow),
		noticed: []string{"WatchEnded", "WatchBroken", "BookmarkMovesOn"},
	},
	{
		name:    "only the first connection is any good",
		config:  roundTrips(once),
		noticed: []string{"GoneEvent", "WatchEnded", "RestoredFromBackup", "InitialEventsRefused", "InitialEventsIgnored", "BookmarkNeverComes", "NoBookmarks"},
	},
	{
		name:    "whatever was told is kept",
		wrap:    keepAll,
		noticed: []string{"PinnedArray", "BlockedHandlerIsBounded"},
	},
	{
		name:    "nothing is transformed",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		options: func(o *informertest.Options) { o.Transform = nil },
		noticed: []string{"Transform", "TransformOnRelist", "TransformOnRestore", "TransformFreesMemory"},
	},
	{
		name:    "only what is there at first is transformed",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		options: transformsFirst(20),
		noticed: []string{"TransformOnRelist"},
	},
	{
		name:    "unstructured objects of a server that went back are not transformed",
		make:    dropInDynamic,
		options: transformsNewer,
		noticed: []string{"TransformOnRestore"},
	},
	{
		name:    "the ListerWatcher is another",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		options: func(o *informertest.Options) { o.ListerWatcher = nil },
		noticed: []string{"DependentList", "BlockedList"},
	},
	{
		name:    "of the pods of several namespaces the first are all",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		config:  roundTrips(firstNamespace),
		noticed: []string{"DependentList"},
	},
	{
		name:    "the stop of an informer with a ListerWatcher takes its time",
		make:    dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		wrap:    func(inf informertest.Informer) informertest.Informer { return lingering{inf} },
		noticed: []string{"BlockedList"},
	},
}

func TestSabotage(t *testing.T) {
	testenv.SkipUnderRace(t)
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	for _, s := range sabotages {
		t.Run(s.name, func(t *testing.T) {
			rig := informertest.Rig{Name: s.name, New: s.build}
			for _, story := range s.noticed {
				if faults := informertest.Play(t, rig, story); len(faults) == 0 {
					t.Errorf("%s does not notice", story)
				}
			}
		})
	}
}

func (s sabotage) build(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if s.config != nil {
		s.config(cfg)
	}
	if s.options != nil {
		s.options(&o)
	}
	var change []func(*weir.Options)
	if s.native != nil {
		change = append(change, s.native)
	}
	build := s.make
	if build == nil {
		build = newNative(weir.ModeAuto, change...)
	}
	inf, err := build(cfg, o)
	if err != nil || s.wrap == nil {
		return inf, err
	}
	return s.wrap(inf), nil
}
