package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestHashSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		check.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	flags := []string{"-ldflags", "-s"}
	hash := func() string {
		t.Helper()
		sum, err := hashSources(dir, flags)
		check.NoError(t, err)
		return sum
	}
	write("go.mod", "module a")
	write("main.go", "package main")
	first := hash()
	if first != hash() {
		t.Error("the same sources have two names")
	}
	write("README.md", "nothing to build")
	if first != hash() {
		t.Error("a text that is not built changes the name")
	}
	flags[1] = "-s -w"
	if first == hash() {
		t.Error("other flags have the same name")
	}
	flags[1] = "-s"
	write("go.mod", "module b")
	if first == hash() {
		t.Error("another go.mod has the same name")
	}
	if _, err := hashSources(filepath.Join(dir, "missing"), flags); err == nil {
		t.Error("a missing directory has a name")
	}
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, func() { t.Error("waits for a free lock") })
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	waited := 0
	if _, err := lockFile(ctx, path, func() { waited++ }); !errors.Is(err, context.DeadlineExceeded) || waited != 1 {
		t.Errorf("locking twice: %v, told %d times", err, waited)
	}
	unlock()
	unlock, err = lockFile(t.Context(), path, func() {})
	check.NoError(t, err)
	unlock()
}

func TestVersionFlags(t *testing.T) {
	const want = "-X k8s.io/component-base/version.gitVersion=v1.37.1 -X k8s.io/component-base/version.gitMajor=1 " +
		"-X k8s.io/component-base/version.gitMinor=37"
	if got, err := versionFlags("v1.37.1"); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := versionFlags("latest"); err == nil {
		t.Error("latest is a version")
	}
}
