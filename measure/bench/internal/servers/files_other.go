//go:build !unix

package servers

// enoughFiles returns nil: this system's limit is unknown.
func enoughFiles(int) error { return nil }
