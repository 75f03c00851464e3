// Package proxy tests the caching proxy in front of a real kube-apiserver with RBAC. It compares
// the proxy's answers to many requests with kube-apiserver's. It also runs real clients, including
// a control plane, with the proxy as their only API server.
package proxy
