// Package hostile attacks weir-proxy, which runs with the limits of deploy/base in front of a real
// kube-apiserver with RBAC. Well-behaved clients use the proxy during each attack. The package
// measures what the attackers cost the proxy and how they affect the well-behaved clients (see
// docs/explanation/threat-model.md). Each attack lasts 5 seconds, or as long as -hostile.for says
// (see make hostile).
package hostile
