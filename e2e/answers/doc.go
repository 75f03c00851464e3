// Package answers compares the bytes of the proxy's answers with those of kube-apiserver's: of
// every resource, in every encoding.
package answers
