// Package proxyfuzz sends random requests of random callers to a real kube-apiserver and to the
// proxy in front of it, and compares the answers: both have the same code, and the proxy shows no
// object that kube-apiserver does not show to the same caller for the same request.
//
// One seed decides everything: permissions, which change in rounds, callers, paths, queries and
// headers. It is the time, but for the first round, unless one is given to replay a run. Nothing
// else changes while requests are compared, so kube-apiserver's own answer is the judge; it knows
// nothing of how the proxy works. Where kube-apiserver and the proxy may differ, allowed says so
// and why.
package proxyfuzz
