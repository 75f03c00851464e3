// Package release tests that a release can be installed and imported. scripts/release tags a
// release in a clone of the repository. The test makes a file-based module proxy from the tags, and
// downloads each module from that proxy into an empty module cache.
package release

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/weirproject/weir/internal/testing/check"
)

var build = flag.Bool("release.build", false, "compile what was installed too: some minutes")

const (
	version = "v0.99.0"
	root    = "github.com/weirproject/weir"
)

// modules are the directories of the released modules.
var modules = []string{"", "cmd/weir", "controllerruntime", "measure/bench", "measure/doctor", "metrics", "proxy"}

// TestRelease installs each program of a release. It also resolves programs that import the public
// packages. With -release.build, it compiles everything.
func TestRelease(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, ".", nil, "git", "clone", "-q", topLevel(t), clone)
	identity := []string{"GIT_AUTHOR_NAME=r", "GIT_AUTHOR_EMAIL=r@example.com", "GIT_COMMITTER_NAME=r", "GIT_COMMITTER_EMAIL=r@example.com"}
	run(t, clone, identity, "scripts/release", "--unsigned", version)
	env := append(offline(t, publish(t, clone)), "GOWORK=off", "GOBIN="+t.TempDir())

	programs := []string{root + "/cmd/weir/weir-serve", root + "/cmd/weir/...", root + "/measure/bench/cmd/weir-bench", root + "/proxy/cmd/weir-proxy"}
	for _, program := range programs {
		// -n resolves the modules and prints the commands, but compiles nothing.
		args := []string{"install", "-n", program + "@" + version}
		if *build {
			args = []string{"install", "-trimpath", program + "@" + version}
		}
		run(t, t.TempDir(), env, "go", args...)
	}

	// Two programs, because the proxy requires a newer client-go than the lowest version of
	// controller-runtime compiles with.
	imports(t, env, []string{"", "/controllerruntime", "/metrics"}, "", "/clientgo", "/informertest", "/apiserver", "/controllerruntime", "/debug", "/metrics")
	imports(t, env, []string{"", "/proxy"}, "", "/proxy")
}

// imports resolves, and with -release.build compiles, a program that requires modules and imports
// packages. Both are without the path of the root.
func imports(t *testing.T, env, modules []string, packages ...string) {
	t.Helper()
	user := t.TempDir()
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, path := range packages {
		source.WriteString("\t_ \"" + root + path + "\"\n")
	}
	source.WriteString(")\n\nfunc main() {}\n")
	check.NoError(t, os.WriteFile(filepath.Join(user, "main.go"), []byte(source.String()), 0o600))
	run(t, user, env, "go", "mod", "init", "example.com/user")
	get := []string{"get"}
	for _, path := range modules {
		get = append(get, root+path+"@"+version)
	}
	run(t, user, env, "go", get...)
	if listed := run(t, user, env, "go", "list", "-deps", "."); !strings.Contains(listed, root+"/internal/core/store\n") {
		t.Errorf("the user's program links\n%s", listed)
	}
	if *build {
		run(t, user, env, "go", "build", "-trimpath", "-o", os.DevNull, ".")
	}
}

// TestTidy checks that go mod tidy works in a module that imports Weir's packages and requires the
// oldest client-go. It loads the tests of all imported packages. If these import a package that the
// required versions lack, it requires newer versions or fails.
func TestTidy(t *testing.T) {
	var mod, source strings.Builder
	mod.WriteString("module example.com/user\n\ngo 1.26.0\n")
	source.WriteString("package main\n\n")
	for _, sub := range []string{"", "/controllerruntime", "/metrics"} {
		mod.WriteString("\nrequire " + root + sub + " v0.0.0\nreplace " + root + sub + " => " + topLevel(t) + sub + "\n")
	}
	for _, path := range []string{"", "/clientgo", "/informertest", "/apiserver", "/controllerruntime", "/debug", "/metrics"} {
		source.WriteString("import _ \"" + root + path + "\"\n")
	}
	dir := t.TempDir()
	check.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod.String()), 0o600))
	check.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source.String()+"\nfunc main() {}\n"), 0o600))
	run(t, dir, []string{"GOWORK=off"}, "go", "mod", "tidy")
	versions := func(dir string) string {
		return run(t, dir, []string{"GOWORK=off"}, "go", "list", "-m", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go")
	}
	check.Equal(t, versions(dir), versions(filepath.Join(topLevel(t), "controllerruntime")))
}

// TestReleaseRefuses checks that scripts/release fails for an invalid version, for a version that a
// module already has, and for uncommitted changes. A failure must not leave a commit.
func TestReleaseRefuses(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, ".", nil, "git", "clone", "-q", topLevel(t), clone)
	for _, args := range [][]string{nil, {"0.1.0"}, {"v1"}, {"--unsigned"}, {"v0.1.0", "v0.1.1"}} {
		cmd := exec.Command("scripts/release", args...)
		cmd.Dir = clone
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "usage:") {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
	before := run(t, clone, nil, "git", "rev-parse", "HEAD")
	refused := func(why string) {
		t.Helper()
		cmd := exec.Command("scripts/release", "--unsigned", version)
		cmd.Dir = clone
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%v, %s", err, out)
		}
		if after := run(t, clone, nil, "git", "rev-parse", "HEAD"); after != before {
			t.Errorf("it refused (%s) and left a commit", why)
		}
	}
	last := modules[len(modules)-1] + "/" + version
	run(t, clone, nil, "git", "tag", last)
	refused("the tag " + last + " exists")
	run(t, clone, nil, "git", "tag", "-d", last)
	check.NoError(t, os.WriteFile(filepath.Join(clone, "new"), nil, 0o600))
	refused("not committed")
}

// publish creates a file-based module proxy from the tags of a repository, and returns its
// directory. It also checks that no go.mod has a replacement or an unreleased version of Weir.
func publish(t *testing.T, repository string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, sub := range modules {
		m := module.Version{Path: strings.TrimSuffix(root+"/"+sub, "/"), Version: version}
		tag := strings.TrimPrefix(sub+"/"+version, "/")
		at := filepath.Join(dir, m.Path, "@v", version)
		check.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		var archive bytes.Buffer
		check.NoError(t, zip.CreateFromVCS(&archive, m, repository, tag, sub))
		info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
		check.NoError(t, err)
		mod := run(t, repository, nil, "git", "show", tag+":"+strings.TrimPrefix(sub+"/go.mod", "/"))
		if strings.Contains(mod, "replace") || regexp.MustCompile(root+`\S* v0\.0\.0\b`).MatchString(mod) {
			t.Errorf("the go.mod of %s:\n%s", m, mod)
		}
		for name, data := range map[string][]byte{".zip": archive.Bytes(), ".info": info, ".mod": []byte(mod)} {
			check.NoError(t, os.WriteFile(at+name, data, 0o600))
		}
		check.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(at), "list"), []byte(version+"\n"), 0o600))
	}
	return dir
}

// offline returns environment variables for a go command with an empty module cache. The go command
// gets released modules from the module proxy in the directory proxy. It gets other modules from
// this machine's module cache, or else from the usual module proxy.
func offline(t *testing.T, proxy string) []string {
	t.Helper()
	cache := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
	usual := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOPROXY"))
	return []string{
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GONOSUMDB=*", "GONOSUMCHECK=1",
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + usual,
	}
}

func topLevel(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, ".", nil, "git", "rev-parse", "--show-toplevel"))
}

// run runs a program in dir, and returns its standard output. env is added to the environment.
func run(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%.4000s", program, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
