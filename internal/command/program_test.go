package command

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSource: the program is found in a checkout, and nowhere else.
func TestSource(t *testing.T) {
	if dir, ok := Proxy.source(t.Context()); !ok || !strings.HasSuffix(dir, "weir-proxy") {
		t.Errorf("in a checkout: %q, %v", dir, ok)
	}
	t.Chdir(t.TempDir())
	if dir, ok := Proxy.source(t.Context()); ok {
		t.Errorf("outside: %q", dir)
	}
	t.Setenv("PATH", "")
	if _, _, err := Proxy.Find(t.Context(), os.Stderr); err == nil || !strings.Contains(err.Error(), "go install "+Proxy.Package) {
		t.Errorf("without a toolchain: %v", err)
	}
}

// TestFind: what is in the path is taken as it is.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program := dir + "/" + Proxy.Name()
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(Proxy.Name()); err != nil {
		return // a system where that is no program
	}
	path, done, err := Proxy.Find(t.Context(), os.Stderr)
	if err != nil || path != program {
		t.Fatalf("%q, %v", path, err)
	}
	if done(); !strings.HasPrefix(path, dir) {
		t.Error(path)
	}
	if _, err := os.Stat(program); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}
