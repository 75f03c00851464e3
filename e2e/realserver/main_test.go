package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--pods", "many"}, {"--pods=-1"}, {"--no-such-flag"}, {"extra"}, {"--authorization-mode", "Maybe"}, {"--pods"}, {"--population", "alien"},
	} {
		var stdout, stderr bytes.Buffer
		check.Equal(t, run(args, &stdout, &stderr), 2, "%v: exit code", args)
		if stdout.Len() > 0 {
			t.Errorf("%v: stdout is %q, want nothing", args, &stdout)
		}
		if out := stderr.String(); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "realserver: ") {
			t.Errorf("%v: stderr is %q, want one line", args, out)
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	check.Equal(t, run([]string{"--help"}, &stdout, &stderr), 0, "exit code")
	if !strings.Contains(stderr.String(), "-kubeconfig") {
		t.Errorf("the help %q does not name the flags", &stderr)
	}
}

func TestServe(t *testing.T) {
	for name, path := range map[string]string{"kubeconfig in a temporary directory": "", "--kubeconfig": filepath.Join(t.TempDir(), "new", "config")} {
		t.Run(name, func(t *testing.T) { testServe(t, path) })
	}
}

func testServe(t *testing.T, kubeconfig string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	const pods = 300
	r, w := io.Pipe()
	served := make(chan error, 1)
	var stderr bytes.Buffer
	go func() {
		err := serve(ctx, flags{pods: pods, seed: 1, kubeconfig: kubeconfig}, w, &stderr)
		served <- err
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatalf("nothing on stdout: %v", <-served)
	}
	path := lines.Text()
	if kubeconfig != "" && path != kubeconfig {
		t.Errorf("printed %q, want %q", path, kubeconfig)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	check.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	check.NoError(t, err)
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	check.NoError(t, err)
	check.Equal(t, len(list.Items), pods, "the watch cache has pods")

	cancel()
	for lines.Scan() {
		t.Errorf("one more line on stdout: %q", lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if _, err := client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{Limit: 1}); err == nil {
		t.Error("the API server still answers")
	}
	if _, err := os.Stat(path); kubeconfig == "" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary kubeconfig is still there: %v", err)
	}
	if out := stderr.String(); !strings.Contains(out, "loaded 300 pods") {
		t.Errorf("no progress on stderr: %q", out)
	}
}
