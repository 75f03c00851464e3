//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/internal/tools/command"
)

// TestServeWhoseProgramEnds checks that weir serve ends when its server's program ends.
func TestServeWhoseProgramEnds(t *testing.T) {
	program := filepath.Join(t.TempDir(), command.Serve.Name())
	script := "#!/bin/sh\nread spec\necho '{\"URL\":\"http://127.0.0.1:1\"}'\necho gone >&2\n"
	check.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	t.Setenv("PATH", filepath.Dir(program))
	t.Chdir(t.TempDir())
	root := newRoot()
	root.SetArgs([]string{"serve"})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil || !strings.HasSuffix(err.Error(), "process ended early: gone") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for a server that has gone")
	}
}

// TestProxyFromCheckout checks that weir proxy, in a checkout, builds weir-proxy. Without a
// configured cluster, weir proxy runs weir-proxy in front of an embedded API server and says so. It
// also prints the path of a kubeconfig for the proxy. An interrupt ends all processes and leaves no
// file behind.
func TestProxyFromCheckout(t *testing.T) {
	// This may compile everything from scratch.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	named := make(chan string, 1)
	stdout, stderr := &bytes.Buffer{}, &lineWatcher{wanted: regexp.MustCompile(`the upstream is an embedded API server with 10,000 pods; try: kubectl --kubeconfig (\S+) get pods`)}
	stderr.found = func() {
		select {
		case named <- string(stderr.wanted.FindSubmatch(stderr.all.Bytes())[1]):
		default: // it was printed already
		}
	}
	cmd := exec.CommandContext(ctx, linkPrograms(t), "proxy", "--listen=127.0.0.1:0")
	cmd.Env = append(os.Environ(), withoutCluster(t)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	check.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends at the latest with ctx
	var kubeconfig string
	select {
	case kubeconfig = <-named:
	case err := <-ended:
		t.Fatalf("it ended with %v: %s", err, stderr.all.String())
	}
	for ticker := time.NewTicker(20 * time.Millisecond); !listsPods(ctx, kubeconfig); {
		select {
		case <-ticker.C:
		case err := <-ended:
			t.Fatalf("it ended with %v: %s", err, stderr.all.String())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v: %s", err, stderr.all.String())
	}
	if said := stderr.all.String(); !strings.Contains(said, "building weir-proxy from ") {
		t.Errorf("it does not say what it builds: %s", said)
	}
	if url := stdout.String(); !regexp.MustCompile(`^https://127\.0\.0\.1:\d+\n$`).MatchString(url) {
		t.Errorf("its address: %q", url)
	}
	if _, err := os.Stat(filepath.Dir(kubeconfig)); !os.IsNotExist(err) {
		t.Errorf("it leaves its kubeconfig behind: %v", err)
	}
}

// linkPrograms creates links to this test binary, named weir and weir-serve, in one directory, and
// returns the path of weir.
func linkPrograms(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"weir", command.Serve.Name()} {
		check.NoError(t, os.Link(self, filepath.Join(dir, name)))
	}
	return filepath.Join(dir, "weir")
}

// withoutCluster returns the environment of a user without a cluster, with the Go toolchain of the
// test's environment.
func withoutCluster(t *testing.T) []string {
	t.Helper()
	env := []string{"HOME=" + t.TempDir(), "KUBECONFIG=", "KUBERNETES_SERVICE_HOST="}
	names := []string{"GOPATH", "GOCACHE", "GOMODCACHE"}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output()
	check.NoError(t, err)
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env
}

// listsPods reports whether the kubeconfig exists and a client that uses it can list a page of
// pods.
func listsPods(ctx context.Context, kubeconfig string) bool {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return false
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	page, err := client.Resource(pods).List(ctx, metav1.ListOptions{Limit: 100})
	return err == nil && len(page.Items) > 0
}

// TestDoctorInterruptedAtPipe checks that an interrupt ends the command while it waits for a pipe's
// writer.
func TestDoctorInterruptedAtPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	check.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"doctor", pipe})
	interrupt()
	check.ErrorIs(t, root.ExecuteContext(ctx), errInterrupted)
	testenv.Eventually(t, t.Context(), "the goroutine that opens the pipe, which this ends", func() bool {
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil && w.Close() == nil
	})
}
