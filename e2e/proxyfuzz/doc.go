// Package proxyfuzz sends random requests of random callers to a real kube-apiserver and to the
// proxy in front of it, and compares the answers. Both answers must have the same status code. The
// proxy must return no object that kube-apiserver does not return to the same caller for the same
// request.
//
// The requests are sent in rounds. A seed determines the callers, paths, queries, headers and
// permissions of a round. By default the first round has a constant seed, and later rounds use the
// current time. A flag sets one seed for all rounds, to repeat a run. Objects do not change while
// requests are compared. The expected answer is therefore kube-apiserver's answer, which does not
// depend on the proxy's implementation. Some answers may differ: the methods that judge calls
// explain when and why.
package proxyfuzz
