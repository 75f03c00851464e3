// Package documents runs the commands in the README, the documents and the programs' help as a new
// user does: in an empty directory, without a cluster.
package documents

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// deadline bounds every wait. It is long because no test measures time against it.
const deadline = 5 * time.Minute

var (
	fence        = regexp.MustCompile("^\\s*```(\\w*)")
	weirCommand  = regexp.MustCompile(`^(weir|go run \./cmd/weir|kubectl weir) `)
	ofRepository = regexp.MustCompile(`(?:^|[\s=/.])((?:cmd|deploy|docs|e2e|examples|measure|proxy|scripts)/[\w./-]+)`)
	comment      = regexp.MustCompile(`\s+# .*$`)
)

// outcome is what a user sees of a command that can run here: its output matches says. If until is
// true, the command then runs until an interrupt, otherwise it ends by itself. Its exit code is 0.
type outcome struct {
	says  string
	until bool
}

// runnable are the commands that need neither a cluster, nor a log, nor minutes. TestCommands
// fails if the documents do not contain one of them.
var runnable = map[string]outcome{
	"go run ./cmd/weir watch pods -A":                     {`10,000 pods in sync after`, true},
	"weir doctor --demo":                                  {`of the API server's predicted work`, false},
	"weir migrate ./...":                                  {`(?s)\+.*clientgo\.NewSharedInformerFactory.*Files to change: 1`, false},
	"weir serve --pods 5000 --churn 50":                   {`http\S+\n`, true},
	"weir serve --population unlike":                      {`http\S+\n`, true},
	"weir serve --resource widgets.v1.example.com=Widget": {`http\S+\n`, true},
	"weir watch pods -A":                                  {`10,000 pods in sync after`, true},
	"weir watch pods -A --once -o json":                   {`(?m)^\{"kind":"Pod"`, false},
	"weir watch pods -A --only-changes":                   {`10,000 pods in sync after`, true},
	"weir watch pods,deployments -A --diff":               {`10,000 pods`, true},
	"weir watch pods -A -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName": {`(?m)^NAME +NODE$`, true},
}

// program is a Go file that weir migrate can change.
const program = `package main

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

func start(c kubernetes.Interface) { informers.NewSharedInformerFactory(c, 0).Start(nil) }
`

// TestCommands checks that the programs accept each command in the documents, and that the
// repository contains each path that a command names. It runs the runnable commands.
func TestCommands(t *testing.T) {
	u := newUser(t)
	documented := commands(t, u.top)
	if len(documented) < 40 {
		t.Errorf("the documents have only %d commands", len(documented))
	}
	seen := map[string]bool{}
	for _, c := range documented {
		seen[c.text] = true
		for _, path := range ofRepository.FindAllStringSubmatch(c.text, -1) {
			if _, err := os.Stat(filepath.Join(u.top, strings.TrimSuffix(path[1], "..."))); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
		if weirCommand.MatchString(c.text) {
			if out, err := u.help(c.text); err != nil {
				t.Errorf("%s: %v\n%s", c, err, out)
			}
		}
	}
	for text, wanted := range runnable {
		if !seen[text] {
			t.Errorf("no document has the command %q", text)
			continue
		}
		t.Run(text, func(t *testing.T) { u.run(t, text, wanted) })
	}
}

// TestProxyPage follows the page docs/start/proxy.md. It starts the proxy and then sends each
// request of the page.
func TestProxyPage(t *testing.T) {
	u := newUser(t)
	page := slices.DeleteFunc(commands(t, u.top), func(c documentedCommand) bool { return c.file != "docs/start/proxy.md" })
	start := slices.IndexFunc(page, func(c documentedCommand) bool { return strings.HasPrefix(c.text, "weir proxy") })
	if start < 0 {
		t.Fatal("the page does not start a proxy")
	}
	clients, err := cluster.BuildClients(t.Context(), t.Logf)
	check.NoError(t, err)
	check.NoError(t, os.Symlink(clients.Kubectl, filepath.Join(u.bin, "kubectl")))
	// Another program may use the ports of the page.
	proxy := u.start(t, strings.ReplaceAll(page[start].text, ":8080", ":0")+" --listen 127.0.0.1:0")
	proxy.await(t, `msg="a resource is cached".* resource=pods objects=10000`)
	for _, c := range page[start+1:] {
		if !strings.Contains(c.text, "proxy.kubeconfig") {
			continue // a line of an example's output
		}
		wanted := outcome{`\S`, strings.HasPrefix(c.text, "weir watch")}
		t.Run(c.text, func(t *testing.T) { u.run(t, c.text, wanted) })
	}
	served := u.start(t, `kubectl --kubeconfig proxy.kubeconfig get --raw /metrics`)
	served.await(t, `weir_proxy_served_total\{group="",resource="pods",verb="list"\} \d\d`)
	served.end(t, false)
	proxy.end(t, true)
}

// documentedCommand is a command in a block of a document.
type documentedCommand struct {
	file, text string
}

func (c documentedCommand) String() string { return c.file + ": " + c.text }

// commands returns the lines of the blocks without a language in all documents, without comments.
// Among them are all commands: docs/commands has those of the programs' help.
func commands(t *testing.T, top string) (all []documentedCommand) {
	t.Helper()
	listed, err := exec.CommandContext(t.Context(), "git", "-C", top, "ls-files", "*.md").Output()
	check.NoError(t, err)
	for file := range strings.Lines(string(listed)) {
		file = strings.TrimSpace(file)
		source, err := os.ReadFile(filepath.Join(top, file))
		check.NoError(t, err)
		text := strings.ReplaceAll(string(source), "\\\n", "")
		inside, language := false, ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if m := fence.FindStringSubmatch(line); m != nil {
				inside, language = !inside, m[1]
			} else if inside && (language == "" || language == "sh") && !strings.HasSuffix(line, "[flags]") && !strings.HasSuffix(line, "[command]") {
				all = append(all, documentedCommand{file, comment.ReplaceAllString(line, "")})
			}
		}
	}
	return all
}

// user is a user who has installed the programs, but has no cluster.
type user struct {
	top, bin, dir string
	env           []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	check.NoError(t, err)
	u := &user{top: strings.TrimSpace(string(out)), bin: t.TempDir(), dir: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", u.bin, "./cmd/weir/...", "./measure/bench/cmd/weir-bench", "./proxy/cmd/weir-proxy")
	build.Dir = u.top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check.NoError(t, os.WriteFile(filepath.Join(u.dir, "main.go"), []byte(program), 0o600))
	u.env = append(os.Environ(), "PATH="+u.bin+":"+os.Getenv("PATH"), "HOME="+u.dir, "KUBECONFIG=", "KUBERNETES_SERVICE_HOST=")
	return u
}

// command returns a command of a document as a process group of a shell.
func (u *user) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", weirCommand.ReplaceAllString(text, "exec weir "))
	cmd.Dir, cmd.Env = u.dir, u.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// help runs a command with --help. The program then checks the command's name and flags.
func (u *user) help(text string) ([]byte, error) {
	text, _, _ = strings.Cut(text, " | ")
	text, _, _ = strings.Cut(text, " >")
	return u.command(context.Background(), text+" --help").CombinedOutput()
}

// running is a command that was started. Its methods are for one goroutine.
type running struct {
	cmd    *exec.Cmd
	ended  chan error // receives one value
	output *output
}

func (u *user) start(t *testing.T, text string) *running {
	t.Helper()
	r := &running{cmd: u.command(t.Context(), text), ended: make(chan error, 1), output: &output{grew: make(chan struct{}, 1)}}
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	check.NoError(t, r.cmd.Start())
	go func() { r.ended <- r.cmd.Wait() }() // ends at the latest with the test's context
	return r
}

// await waits until the output matches the expression.
func (r *running) await(t *testing.T, expression string) {
	t.Helper()
	wanted, limit := regexp.MustCompile(expression), time.After(deadline)
	for !wanted.Match(r.output.bytes()) {
		select {
		case <-r.output.grew:
		case err := <-r.ended:
			r.ended <- err
			if !wanted.Match(r.output.bytes()) {
				t.Fatalf("ended with %v, without %q: %.2000s", err, expression, r.output.bytes())
			}
			return
		case <-limit:
			t.Fatalf("not %q: %.2000s", expression, r.output.bytes())
		}
	}
}

// end waits for the end of the command, which must succeed. If interrupt is true, it interrupts the
// command.
func (r *running) end(t *testing.T, interrupt bool) {
	t.Helper()
	if interrupt {
		check.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	}
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("ended with %v: %.2000s", err, r.output.bytes())
		}
	case <-time.After(deadline):
		t.Fatalf("does not end: %.2000s", r.output.bytes())
	}
}

func (u *user) run(t *testing.T, text string, wanted outcome) {
	r := u.start(t, text)
	r.await(t, wanted.says)
	r.end(t, wanted.until)
}

// output stores the first 64 KiB that a command prints. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	head bytes.Buffer
	grew chan struct{} // has room for one value
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grew <- struct{}{}:
	default:
	}
	o.head.Write(p[:min(len(p), 64<<10-o.head.Len())])
	return len(p), nil
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.head.Bytes())
}
