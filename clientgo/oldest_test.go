//go:build oldest

package clientgo

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// named is empty: the oldest client-go has no informer names.
type named interface{}

const keepsTransforms = false

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
