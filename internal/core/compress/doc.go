// Package compress provides Weir's compression: S2 with a dictionary, and gzip. No other package
// imports github.com/klauspost/compress. Kubernetes avoids that module because of its assembly;
// CONTRIBUTING.md says why Weir makes an exception.
package compress
