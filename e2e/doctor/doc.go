// Package doctor runs weir doctor's parts on the audit log of a real kube-apiserver, whose clients
// follow a script.
package doctor
