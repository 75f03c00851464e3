// Package debug is a page that shows the informers of a process while they run: what each holds,
// how current it is, what fails, and how far its handlers are behind.
//
//	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
//
// It shows the informers of package weir, the drop-ins of package clientgo, and those under
// controller-runtime's caches; and a proxy, where one runs in the process.
//
// Whoever asks for an object by its key sees its changes. Hidden are: data and annotations of
// Secrets and of objects of unknown kind, values of environment variables, annotations that are
// JSON objects. Selectors, errors and the key that a handler is at are shown. So mount it where
// only operators get: on a loopback address, where only requests for an IP address or localhost are
// answered, or behind authentication. docs/debug.md has more.
package debug
