package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Binaries are the paths of the server programs. For controller-runtime's envtest, set the
// variables TEST_ASSET_KUBE_APISERVER and TEST_ASSET_ETCD to these paths.
type Binaries struct {
	APIServer string
	Etcd      string
}

// Clients are the paths of the client programs. They have the same version as the servers.
type Clients struct {
	ControllerManager string
	Scheduler         string
	Kubectl           string
}

const (
	e2eModule     = "github.com/weirproject/weir/e2e"
	apiserverName = "kube-apiserver"
	etcdName      = "etcd"
	clientsName   = "kube-clients" // one program that contains all Clients
)

// Build returns the paths of the server programs. It builds programs that the user's cache
// directory does not contain. This takes some minutes, once for each state of the module e2e/kube.
// If several processes call Build at the same time, one builds and the others wait. Build must run
// inside this repository, because it finds the sources with the go command. logf receives progress
// messages.
func Build(ctx context.Context, logf func(format string, args ...any)) (Binaries, error) {
	dir, err := build(ctx, logf, etcdName, apiserverName)
	if err != nil {
		return Binaries{}, err
	}
	return Binaries{APIServer: filepath.Join(dir, apiserverName), Etcd: filepath.Join(dir, etcdName)}, nil
}

// BuildClients returns the paths of the client programs, and builds missing programs as Build does.
// It also builds the servers, because servers and clients have most packages in common.
func BuildClients(ctx context.Context, logf func(format string, args ...any)) (Clients, error) {
	dir, err := build(ctx, logf, etcdName, apiserverName, clientsName)
	if err != nil {
		return Clients{}, err
	}
	var c Clients
	for name, path := range map[string]*string{
		"kube-controller-manager": &c.ControllerManager, "kube-scheduler": &c.Scheduler, "kubectl": &c.Kubectl,
	} {
		*path = filepath.Join(dir, name)
		if err := os.Symlink(clientsName, *path); err != nil && !errors.Is(err, fs.ErrExist) {
			return Clients{}, fmt.Errorf("cluster: %w", err)
		}
	}
	return c, nil
}

// build builds the named programs that are missing. It returns the directory that contains all of
// them.
func build(ctx context.Context, logf func(string, ...any), names ...string) (dir string, err error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return "", fmt.Errorf("cluster: finding the sources of the programs: %w", err)
	}
	flags, err := buildFlags(ctx, source)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	sum, err := hashSources(source, flags)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	dir = filepath.Join(cache, "weir-e2e", sum)
	if len(missing(dir, names)) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"), func() { logf("waiting for another process that builds programs") })
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	defer unlock()
	if names = missing(dir, names); len(names) == 0 {
		return dir, nil
	}
	if err := compile(ctx, source, dir, names, flags, logf); err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	return dir, nil
}

// missing returns the names of the programs that dir does not contain.
func missing(dir string, names []string) (out []string) {
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			out = append(out, name)
		}
	}
	return out
}

// buildFlags returns the go command's flags to build the programs. The tests of other modules use
// the same flags, and the same module versions as e2e/kube. Common packages are therefore compiled
// only once.
func buildFlags(ctx context.Context, source string) ([]string, error) {
	version, err := GoCommand(ctx, source, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	ldflags, err := versionFlags(version)
	if err != nil {
		return nil, err
	}
	return []string{"-buildvcs=false", "-ldflags", "-s -w " + ldflags}, nil
}

// compile builds all named programs with one go command, which can link a program while it compiles
// another one.
func compile(ctx context.Context, source, dir string, names, flags []string, logf func(string, ...any)) error {
	all := strings.Join(names, ", ")
	logf("building %s from their Go modules; the first time takes some minutes", all)
	start := time.Now()
	unfinished := filepath.Join(dir, "unfinished")
	args := append([]string{"build", "-o", unfinished + string(filepath.Separator)}, flags...)
	for _, name := range names {
		args = append(args, "./"+name)
	}
	if _, err := GoCommand(ctx, source, args...); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(unfinished, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	logf("built %s in %s", all, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// versionFlags returns the linker flags that set the Kubernetes version of a program. Without these
// flags, clients see v0.0.0. It returns an error if version does not have three parts.
func versionFlags(version string) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("%q is no version of Kubernetes", version)
	}
	const x = "-X k8s.io/component-base/version."
	return strings.Join([]string{x + "gitVersion=" + version, x + "gitMajor=" + parts[0], x + "gitMinor=" + parts[1]}, " "), nil
}

// sourceDir returns the directory of the module e2e/kube, which contains the programs' sources. The
// environment variable WEIR_KUBE replaces it, for another version of Kubernetes.
func sourceDir(ctx context.Context) (string, error) {
	if dir := os.Getenv("WEIR_KUBE"); dir != "" {
		return dir, nil
	}
	dir, err := GoCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", e2eModule)
	if err != nil {
		return "", err
	}
	if dir == "" {
		return "", fmt.Errorf("module %s has no directory here", e2eModule)
	}
	return filepath.Join(dir, "kube"), nil
}

// hashSources returns a directory name for the programs. The name is a hash of the sources in dir,
// the flags, the operating system and the architecture. Programs that were built from other sources
// or flags are in another directory.
func hashSources(dir string, flags []string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %q\n", runtime.GOOS, runtime.GOARCH, flags)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".mod" && ext != ".sum" {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, filepath.ToSlash(name), len(raw))
		h.Write(raw)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("reading the sources of the servers: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// GoCommand runs the go command in dir, outside of any workspace. If dir is empty, it runs the go
// command in this process's directory, with its workspace. It returns the standard output. An error
// contains the standard error output. When ctx ends, GoCommand interrupts the command. GoCommand
// does not change the cgo setting, because another setting would make Go compile all packages that
// import net a second time.
func GoCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = os.Environ()
	if cmd.Dir = dir; dir != "" {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
		return "", errors.Join(err, ctx.Err())
	}
	return strings.TrimSpace(stdout.String()), nil
}
