// Package debug is a page that shows the informers of a process while they run: what each holds, how
// current it is, what fails, and how far its handlers are behind.
//
//	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
//
// It shows the informers of package weir, the drop-ins of package clientgo, and those under
// controller-runtime's caches. No content of an object is shown, and no name of one. But selectors
// and the texts of errors are, so mount it where only operators get: on a loopback address, or
// behind authentication.
package debug
