// Package debug is a page that shows the informers of a process while they run: what each holds,
// how current it is, what fails, and how far its handlers are behind.
//
//	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
//
// It shows the informers of package weir, the drop-ins of package clientgo, and those under
// controller-runtime's caches; and a proxy, where one runs in the process.
//
// It shows the key of the object that a handler is at, and, to whoever asks for an object by its
// key, what changes in that object, but for the data and annotations of Secrets and of objects
// whose kind is not known, the values of environment variables, and annotations that are an object.
// Selectors and the texts of errors are shown too. So mount it where only operators get: on a
// loopback address, where only requests for an IP address or localhost are answered, or behind
// authentication. docs/debug.md has more.
package debug
