package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

func TestLoadAndList(t *testing.T) {
	pods := podsim.New(500, 1)
	check.NoError(t, shared.LoadPods(t.Context(), pods))
	client := admin(t, shared)
	for _, resourceVersion := range []string{"", "0"} {
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion: resourceVersion})
		check.NoError(t, err)
		versions, byNamespace := map[string]bool{}, map[string]int{}
		for i := range list.Items {
			versions[list.Items[i].ResourceVersion] = true
			byNamespace[list.Items[i].Namespace]++
		}
		if len(list.Items) != pods.Len() || len(versions) != pods.Len() {
			t.Errorf("resourceVersion %q: %d pods of %d versions, want %d", resourceVersion, len(list.Items), len(versions), pods.Len())
		}
		if got := slices.Sorted(maps.Keys(byNamespace)); !slices.Equal(got, pods.Namespaces()) {
			t.Errorf("the pods are in %v, want %v", got, pods.Namespaces())
		}
	}
	for _, name := range pods.Namespaces() {
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	// The server can also change a pod that was written directly into etcd.
	pod, err := client.CoreV1().Pods(pods.Pod(7).Namespace).Get(t.Context(), pods.Pod(7).Name, metav1.GetOptions{})
	check.NoError(t, err)
	pod.Labels["changed"] = "yes"
	if _, err := client.CoreV1().Pods(pod.Namespace).Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	version, err := admin(t, shared).Discovery().ServerVersion()
	check.NoError(t, err)
	if version.GitVersion != "v1.37.2" || version.Major != "1" || version.Minor != "37" {
		t.Errorf("the server says it is %s (%s.%s)", version.GitVersion, version.Major, version.Minor)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check.NoError(t, shared.WriteKubeconfig(path))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	check.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	check.NoError(t, err)
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	for user, known := range map[string]bool{stranger: true, "unknown": false} {
		if _, err := shared.ConfigFor(user); (err == nil) != known {
			t.Errorf("the configuration for %s: %v", user, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	for cause, options := range map[string]Options{
		"unknown flag: --no-such-flag": {APIServerArgs: []string{"--no-such-flag"}},
		"not a directory":              {EtcdArgs: []string{"--data-dir=/dev/null/etcd"}},
	} {
		c, err := Start(t.Context(), options)
		if err == nil {
			c.Stop()
			t.Fatalf("%s: the cluster starts", cause)
		}
		if !strings.Contains(err.Error(), cause) {
			t.Errorf("the error does not show the log: %v", err)
		}
		_, dir, found := strings.Cut(err.Error(), "the logs are kept in ")
		logs, globErr := filepath.Glob(filepath.Join(dir, "*.log"))
		if !found || globErr != nil || len(logs) == 0 {
			t.Errorf("%s: no logs in %q, %v", cause, dir, globErr)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitAndStop(t *testing.T) {
	c := start(t, Options{MemoryLimit: "2GiB"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); err != nil {
		t.Errorf("Wait with a context that is done: %v", err)
	}
	server := c.first().process
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", server.pid))
	if err == nil && !strings.Contains(string(environ), "GOMEMLIMIT=2GiB") {
		t.Error("the API server has no GOMEMLIMIT")
	}
	check.NoError(t, syscall.Kill(c.etcd.pid, syscall.SIGKILL))
	if err := c.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd exited (signal: killed)") {
		t.Errorf("Wait after etcd has died: %v", err)
	}

	dir := c.KeepLogs()
	defer os.RemoveAll(dir)
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
	entries, err := os.ReadDir(dir)
	check.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".log" {
			t.Errorf("%s is left in addition to the logs", e.Name())
		}
	}
	for _, p := range []*Program{server, c.etcd} {
		check.ErrorIs(t, syscall.Kill(p.pid, 0), syscall.ESRCH, "%s still runs", p.name)
	}
}
