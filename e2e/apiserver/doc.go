// Package apiserver compares the embedded API server with a real kube-apiserver: media types, field
// selectors, answers to writes, and the output of kubectl.
package apiserver
