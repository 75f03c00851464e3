// Package hostile attacks weir-proxy, which runs with the limits of deploy/base in front of a real
// kube-apiserver with RBAC. Clients that misbehave at the level of connections run next to
// well-behaved ones. The package measures what the first cost and what the second notice: see
// docs/threat-model.md. Each attack lasts 5 seconds, or as long as -hostile.for says: see make
// hostile.
package hostile
