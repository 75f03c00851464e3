// Package answers checks that the proxy's answers have the same bytes as those of kube-apiserver,
// for every resource in every encoding.
package answers
