// Package apiserver compares the embedded API server with a real kube-apiserver: the media types of
// their answers, and their field selectors.
package apiserver
