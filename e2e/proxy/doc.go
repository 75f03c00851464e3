// Package proxy tests the caching proxy in front of a real kube-apiserver with RBAC. It compares
// the proxy's answers with kube-apiserver's, row by row. It also runs real clients, up to a control
// plane, whose only API server is the proxy.
package proxy
