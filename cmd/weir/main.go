// Command weir follows Kubernetes resources with weir's informer, serves a simulated cluster, and
// measures the informer against client-go's.
//
// Data goes to stdout, progress and errors to stderr. The exit code is 1 for a failure and 2 for
// wrong usage.
package main

import "os"

func main() { os.Exit(run()) }
