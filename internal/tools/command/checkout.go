package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// checkout returns the checkout from which this program was built, if the working directory is in
// it and there is a Go toolchain. No other directory is trusted: building its content would run
// foreign code. A program that was built with -trimpath, like those of releases, has no checkout.
func checkout() (dir string, ok bool) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", false
	}
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	built, err := os.Stat(root)
	if err != nil {
		return "", false
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", false
	}
	here, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if is, err := os.Stat(here); err == nil && os.SameFile(is, built) {
			return root, true
		}
		above := filepath.Dir(here)
		if above == here {
			return "", false
		}
		here = above
	}
}
