package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// withGo sets PATH to the given directories and the directory of the Go toolchain.
func withGo(t *testing.T, dirs ...string) {
	t.Helper()
	toolchain, err := exec.LookPath("go")
	check.NoError(t, err)
	t.Setenv("PATH", strings.Join(append(dirs, filepath.Dir(toolchain)), string(filepath.ListSeparator)))
}

// TestCheckout checks that checkout finds the checkout from which the test binary was built.
func TestCheckout(t *testing.T) {
	dir, ok := checkout()
	if _, err := os.Stat(filepath.Join(dir, "go.work")); !ok || err != nil {
		t.Errorf("in a checkout: %q, %v, %v", dir, ok, err)
	}
	t.Setenv("PATH", "")
	if dir, ok := checkout(); ok {
		t.Errorf("without a toolchain: %q", dir)
	}
}

// TestForeign checks that Find does not build in a directory that only looks like the checkout: the
// code there may be foreign.
func TestForeign(t *testing.T) {
	withGo(t)
	module := strings.TrimSuffix(Proxy.Package, "/cmd/weir-proxy")
	for name, mod := range map[string]string{
		"nothing":           "",
		"another module":    "module evil.example\n\ngo 1.26\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => ./proxy\n",
		"a module of ours":  "module " + module + "\n\ngo 1.26\n",
		"all of our module": "module github.com/weirproject/weir\n\ngo 1.26\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, text string) {
				t.Helper()
				file = filepath.Join(dir, file)
				check.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
				check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			if mod != "" {
				write("go.mod", mod)
				write("proxy/cmd/weir-proxy/main.go", "package main\n\nfunc main() {}\n")
				write("cmd/weir-proxy/main.go", "package main\n\nfunc main() {}\n")
			}
			if strings.Contains(mod, "replace") {
				write("proxy/go.mod", "module "+module+"\n\ngo 1.26\n")
			}
			t.Chdir(dir)
			file, done, err := Proxy.Find(t.Context(), os.Stderr)
			if err == nil {
				done()
				t.Fatalf("it builds %s", file)
			}
			if !strings.Contains(err.Error(), "go install ./proxy/cmd/weir-proxy") {
				t.Error(err)
			}
		})
	}
}

// TestFind checks that outside the checkout Find uses a program in the PATH and builds none. In the
// checkout Find must not use a program in the PATH, because it may be older than the checkout.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	withGo(t, dir)
	program := filepath.Join(dir, Proxy.Name())
	check.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	if _, err := exec.LookPath(Proxy.Name()); err != nil {
		return // the test's directory is mounted noexec
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Proxy.Find(cancelled, io.Discard); err == nil {
		t.Error("the one in the path was taken in the checkout")
	}
	t.Chdir(t.TempDir())
	path, done, err := Proxy.Find(t.Context(), os.Stderr)
	if err != nil || path != program {
		t.Fatalf("%q, %v", path, err)
	}
	done()
	if _, err := os.Stat(program); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}
