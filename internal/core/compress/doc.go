// Package compress has what Weir compresses with: S2 with a dictionary, and gzip. Only this package
// imports github.com/klauspost/compress, which Kubernetes does not want because of its assembly;
// CONTRIBUTING.md has the reason for the exception.
package compress
