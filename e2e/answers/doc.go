// Package answers checks that the proxy's answers have the same bytes as kube-apiserver's answers,
// for every resource in every encoding.
package answers
