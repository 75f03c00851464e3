// Package debug serves a page that shows the informers of a running process: their contents, how
// current they are, their errors, and how far their handlers lag.
//
//	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
//
// It shows the informers of package weir, the drop-ins of package clientgo, and those under
// controller-runtime's caches; and a proxy, if one runs in the process.
//
// A user who requests an object by its key sees its changes. The page hides: data and annotations
// of Secrets and of objects of unknown kind, values of environment variables, annotations that are
// JSON objects. It shows selectors, errors and the key that a handler is handling. So mount it
// where only operators can reach it: on a loopback address, where the handler answers only requests
// for an IP address or localhost, or behind authentication. See docs/debug.md.
package debug
