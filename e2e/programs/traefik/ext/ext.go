// Package ext has the types that Traefik embeds in its configuration, so that other programs can
// extend the configuration. Traefik's own module replaces this module by one of its directories, so
// that no registry serves it.
package ext

// HTTP extends the HTTP configuration by no fields.
type HTTP struct{}

// Router extends the configuration of a router by no fields.
type Router struct{}
