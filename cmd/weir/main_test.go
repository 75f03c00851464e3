package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/embedded"
)

// TestMain runs the tests. If scripts run the test binary under the name weir or weir-serve, it
// runs that command instead.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"weir":          func() { os.Exit(run()) },
		plugin:          func() { os.Exit(run()) },
		completesPlugin: func() { os.Exit(run()) },
		"weir-serve": func() {
			os.Exit(command.Run(func(ctx context.Context) error { return embedded.Serve(ctx, os.Stdin, os.Stdout) }))
		},
	})
}

// leakless runs the tests, and fails if they pass but leaked a goroutine.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// startPlain starts an API server that ends with the test.
func startPlain(t *testing.T, o apiserver.Options) *apiserver.Server {
	t.Helper()
	o.AnyNamespace = true
	server, err := apiserver.New(o)
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	check.NoError(t, server.Start())
	return server
}

// startServer starts an API server with 40 pods and two widgets of a custom resource. No user may
// list or watch its secrets. The first request for its nodes receives a Retry-After. churn is the
// number of pod changes per second.
func startServer(t *testing.T, churn float64) *apiserver.Server {
	t.Helper()
	faults := &apiserver.Faults{}
	core := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
	faults.Add(apiserver.Rule{
		Match: apiserver.Match("list", "secrets"),
		Err:   apierrors.NewForbidden(core("secrets"), "", errors.New(`User "jane" cannot list resource "secrets"`)),
	})
	faults.Add(apiserver.Rule{
		Match: apiserver.Match("watch", "secrets"),
		Err:   apierrors.NewForbidden(core("secrets"), "", errors.New(`User "jane" cannot watch resource "secrets"`)),
	})
	faults.Add(apiserver.Rule{
		Match: apiserver.Match("list", "nodes"), Times: 1,
		Err: apierrors.NewTooManyRequests("the server is starting", 1),
	})
	server := startPlain(t, apiserver.Options{
		Pods: 40, Churn: churn, Seed: 1, Faults: faults, AnyNamespace: true,
		Resources: []apiserver.Resource{{GroupVersionResource: widgets, Kind: "Widget", ShortNames: []string{"wd"}, Namespaced: true}},
	})
	client, err := dynamic.NewForConfig(server.Config())
	check.NoError(t, err)
	for _, name := range []string{"cog", "wheel"} {
		_, err := client.Resource(widgets).Namespace("shop").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"part": name}},
		}}, metav1.CreateOptions{})
		check.NoError(t, err)
	}
	return server
}

// writeKubeconfig writes a kubeconfig with two contexts: shop, for the server, and nowhere, for a
// server that does not exist.
func writeKubeconfig(path, server string) error {
	cfg := clientcmdapi.NewConfig()
	for name, url := range map[string]string{"shop": server, "nowhere": "http://127.0.0.1:1"} {
		cfg.Clusters[name] = &clientcmdapi.Cluster{Server: url}
		cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, Namespace: "shop"}
	}
	cfg.CurrentContext = "shop"
	return clientcmd.WriteToFile(*cfg, path)
}

func TestScripts(t *testing.T) {
	still, changing := startServer(t, 0), startServer(t, 50)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SERVER", still.URL())
			e.Setenv("CHANGING", changing.URL())    // tests must not rely on the number of pods
			e.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each command under -race ends a second later
			return writeKubeconfig(filepath.Join(e.WorkDir, "kubeconfig"), still.URL())
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until, "await": await},
		RequireExplicitExec: true,
	})
}

// exits implements `exits CODE PROGRAM ARGS…`: it runs a program that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until implements `until REGEXP PROGRAM ARGS…`: it runs a program, interrupts it when a line of
// its stdout or stderr matches, and expects a clean end.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM ARGS…")
	}
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	path, err := lookPath(ts, args[1])
	ts.Check(err)
	cmd := exec.CommandContext(ctx, path, args[2:]...)
	cmd.Args[0] = args[1]
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "KUBERNETES_SERVICE_HOST=")
	var once sync.Once
	interrupt := func() { once.Do(func() { cmd.Process.Signal(os.Interrupt) }) }
	stdout, stderr := &lineWatcher{wanted: wanted, found: interrupt}, &lineWatcher{wanted: wanted, found: interrupt}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	io.Copy(ts.Stdout(), &stdout.all)
	io.Copy(ts.Stderr(), &stderr.all)
	if err != nil {
		ts.Fatalf("%v, stdout %q, stderr %q", err, stdout.all.String(), stderr.all.String())
	}
}

// await implements `await FILE`: it waits until the file exists.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	deadline := time.After(time.Minute)
	for ticker := time.NewTicker(10 * time.Millisecond); ; {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			ts.Fatalf("%s does not exist", args[0])
		}
	}
}

// lookPath finds a program in the PATH of the script.
func lookPath(ts *testscript.TestScript, program string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// lineWatcher is a writer that stores its input and calls found when a line matches.
type lineWatcher struct {
	wanted *regexp.Regexp
	found  func()
	all    bytes.Buffer
	line   bytes.Buffer
}

func (l *lineWatcher) Write(p []byte) (int, error) {
	l.all.Write(p)
	l.line.Write(p)
	for lines := bufio.NewScanner(bytes.NewReader(l.line.Bytes())); lines.Scan(); {
		if l.wanted.Match(lines.Bytes()) {
			l.found()
		}
	}
	if i := bytes.LastIndexByte(l.line.Bytes(), '\n'); i >= 0 {
		l.line.Next(i + 1)
	}
	return len(p), nil
}

// start runs the command in this process. It returns a function that interrupts the command and
// waits for its end.
func start(t *testing.T, stdout, stderr io.Writer, args ...string) (end func() error) {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-ended
	}
}
