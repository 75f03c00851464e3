// Package answers compares the bytes of the proxy's answers with those of kube-apiserver, for every
// resource in every encoding.
package answers
