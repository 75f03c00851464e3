// Package proxyfuzz sends random requests of random callers to a real kube-apiserver and to the
// proxy in front of it, and compares the answers: both have the same code, and the proxy returns no
// object that kube-apiserver does not return to the same caller for the same request.
//
// One seed determines everything: permissions, which change in rounds, callers, paths, queries and
// headers. It is the time, except for the first round, unless a seed is given to replay a run.
// Nothing else changes while requests are compared, so kube-apiserver's own answer is the
// reference, independent of the proxy's implementation. Where kube-apiserver and the proxy may
// differ, allowed has the difference and its reason.
package proxyfuzz
