package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// The server takes the pods for its own: it can change one.
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

func TestKillAndStartAPIServer(t *testing.T) {
	client := admin(t, shared)
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	defer w.Stop()
	shared.KillAPIServer()
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a killed API server answers")
	}
	for range w.ResultChan() { // ends, or the test runs into its deadline
	}
	check.NoError(t, shared.StartAPIServer(t.Context()))
	if err := shared.StartAPIServer(t.Context()); err == nil {
		t.Error("a running API server can be started")
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the client from before the restart: %v", err)
	}
}

func TestRBAC(t *testing.T) {
	config, err := shared.ConfigFor(stranger)
	check.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	check.NoError(t, err)
	list := func(ctx context.Context) error {
		_, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
	if err := list(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("before the RoleBinding: %v, want forbidden", err)
	}
	rbac := admin(t, shared).RbacV1()
	meta := metav1.ObjectMeta{Name: "pod-reader"}
	_, err = rbac.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	}}, metav1.CreateOptions{})
	check.NoError(t, err)
	_, err = rbac.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: stranger}},
	}, metav1.CreateOptions{})
	check.NoError(t, err)
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := list(ctx)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Errorf("after the RoleBinding: %v", err)
	}
	if _, err := client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v, want forbidden", err)
	}
	if _, err := shared.ConfigFor("unknown"); err == nil {
		t.Error("there is a configuration for an unknown user")
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
	for _, p := range []*process{server, c.etcd} {
		check.ErrorIs(t, syscall.Kill(p.pid, 0), syscall.ESRCH, "%s still runs", p.name)
	}
}

func TestStopRemovesEverything(t *testing.T) {
	c := start(t, Options{Pods: podsim.New(100, 1)})
	list, err := admin(t, c).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	check.NoError(t, err)
	check.Equal(t, len(list.Items), 100, "pods")
	check.NoError(t, c.Stop())
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}
