// Package proxyfuzz sends random requests of random callers to a real kube-apiserver and to the
// proxy in front of it, and compares the answers. Both answers must have the same code, and the
// proxy must return no object that kube-apiserver does not return to the same caller for the same
// request.
//
// One seed determines everything: callers, paths, queries, headers, and permissions, which change
// in rounds. The seed is a constant in the first round and the current time in later rounds, unless
// a flag sets it to replay a run. Nothing else changes while requests are compared, so
// kube-apiserver's own answer is the reference. It is independent of the proxy's implementation.
// Where the answers of kube-apiserver and the proxy may differ, the methods that judge calls say
// why.
package proxyfuzz
