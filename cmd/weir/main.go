// Command weir follows Kubernetes resources with Weir's informer, serves a simulated cluster, and
// compares the informer with client-go's.
//
// Data goes to stdout, progress and errors to stderr. The exit code is 1 for a failure and 2 for
// wrong usage.
package main

import "os"

func main() { os.Exit(run()) }
