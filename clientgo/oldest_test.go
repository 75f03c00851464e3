//go:build oldest

package clientgo

import "k8s.io/client-go/tools/cache"

// shutDownHandler removes a handler. It does not wait for the last call: the oldest client-go has
// no function for that.
func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	return inf.RemoveEventHandler(reg)
}
