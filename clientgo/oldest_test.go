//go:build oldest

package clientgo

import "k8s.io/client-go/tools/cache"

// shutDownHandler removes a handler. Handlers end in their own time in the oldest client-go.
func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	return inf.RemoveEventHandler(reg)
}
