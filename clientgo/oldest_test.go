//go:build oldest

package clientgo

import "k8s.io/client-go/tools/cache"

// shutDownHandler removes a handler. The oldest client-go cannot wait for a handler's end.
func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	return inf.RemoveEventHandler(reg)
}
