package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// proxyCommand is the program that does the work. The libraries with which it asks an API server about its callers hold more memory from
// their start than a whole `weir watch`, so they are in a program of their own.
const proxyCommand = "weir-proxy"

// proxyPackage is where it is made of.
const proxyPackage = "github.com/weirproject/weir/proxy/cmd/" + proxyCommand

// findProxy looks beside this program, then in the path. In a checkout it builds the program, and tells log so. done removes what was built.
func findProxy(ctx context.Context, log io.Writer) (path string, done func(), err error) {
	name := proxyCommand
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && !info.IsDir() {
			return beside, func() {}, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, func() {}, nil
	}
	source, ok := proxySource(ctx)
	if !ok {
		return "", nil, fmt.Errorf("%s is neither beside this command nor in the path; install it with: go install %s@latest", name, proxyPackage)
	}
	fmt.Fprintf(log, "building %s from %s\n", proxyCommand, source)
	dir, err := os.MkdirTemp("", "weir-proxy-")
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, name)
	build := exec.CommandContext(ctx, "go", "build", "-o", path, proxyPackage)
	if said, err := build.CombinedOutput(); err != nil {
		done()
		return "", nil, fmt.Errorf("build %s: %w", proxyCommand, errors.Join(err, errors.New(strings.TrimSpace(string(said)))))
	}
	return path, done, nil
}

// proxySource is where the program's source is, if the working directory is in a checkout and there is a Go toolchain.
func proxySource(ctx context.Context) (dir string, ok bool) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", proxyPackage)
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off") // what is not here already is not looked for
	out, err := list.Output()
	dir = strings.TrimSpace(string(out))
	return dir, err == nil && dir != ""
}
