package debug_test

import (
	"log"
	"net/http"

	"github.com/weirproject/weir/debug"
)

// The page on an address of this machine alone.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
	go func() { log.Print(http.ListenAndServe("127.0.0.1:6060", mux)) }()
}
