// Package compress provides Weir's compression: S2 with a dictionary, and gzip. Only this package
// imports github.com/klauspost/compress, which Kubernetes avoids because of its assembly.
// CONTRIBUTING.md says why Weir makes an exception.
package compress
