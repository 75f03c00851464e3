// Package apimetrics reads what a kube-apiserver counts about itself on /metrics, and finds what
// makes it work from two such readings. Clients have no names there: whom to blame is for package
// internal/doctor, from audit logs.
package apimetrics
