// Package apiserver compares the embedded API server with a real kube-apiserver: what media types
// they answer in, and by which fields they select.
package apiserver
