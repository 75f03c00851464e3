// Package doctor runs the parts of weir doctor on audit logs and metrics of a real kube-apiserver,
// whose clients follow a script.
package doctor
