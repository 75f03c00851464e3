//go:build oldest

package clientgo

import (
	"reflect"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// keepsTransforms is false before client-go 0.36, whose stores have a method Bookmark.
var _, keepsTransforms = reflect.TypeFor[cache.Store]().MethodByName("Bookmark")

// noResync is longer than any test. Without a resync period, the Reflector of client-go 0.34 would
// wait on a channel of its package, with which the clock of a synctest bubble stops.
const noResync = 10_000 * time.Hour

// skipped is a pattern of the tests that need a newer client-go. v0.34 keeps items and events that
// newer versions omit, its informers have no LastSyncResourceVersion, and its ListOptions have no
// shard selector.
const skipped = `^TestTransformError$/^client-go$|^TestOddResults$//^client-go$|^TestObjectsOfOtherKinds$/^dynamic$|` +
	`^TestMethods$/(GetController|LastSyncResourceVersion)|^TestShards$/^server_selects_true`

// callsEveryMethod is false, because the tables below are empty: client-go 0.36 has the methods.
const callsEveryMethod = false

// These tables are empty: the oldest client-go lacks the methods.
var (
	newerTypedCalls     []factoryCall[informers.SharedInformerFactory]
	newerIndexerMethods []method
)

// shutDownHandler removes a handler. It does not wait for the handler's last call, because the
// oldest supported client-go has no function that waits.
func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	return inf.RemoveEventHandler(reg)
}
