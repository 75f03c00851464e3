//go:build !unix

package servers

// enoughFiles knows of no limit on this system.
func enoughFiles(int) error { return nil }
