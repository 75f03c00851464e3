// Package proxy tests the caching proxy in front of a real kube-apiserver with RBAC: what it
// answers, row by row, against what kube-apiserver does; and real clients that know nothing else,
// up to a control plane.
package proxy
