package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestBoltSink checks that the database equals the server's state after changes and after restarts.
// Before one restart, the process ends during a replace. Before two other restarts, the server
// compacts the stored resourceVersion.
func TestBoltSink(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Pods: 1200})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client := kubernetes.NewForConfigOrDie(server.Config())
	path := filepath.Join(t.TempDir(), "pods.db")

	catchUp(t, ctx, server.Config(), path, client)
	for _, change := range []func(){
		func() {},
		func() { touch(t, ctx, client, 0) },
		func() { touch(t, ctx, client, 1); server.Compact() },
	} {
		change()
		catchUp(t, ctx, server.Config(), path, client)
	}

	// If a process ends during a replace, the database still contains the previous state.
	sink := open(t, path)
	before := contents(t, sink)
	check.NoError(t, errors.Join(sink.BeginReplace(), sink.Put(weir.Record{Name: "x", Raw: []byte("{}")}), sink.db.Update(sink.write), sink.Close()))
	sink = open(t, path)
	if after := contents(t, sink); after != before {
		t.Errorf("a replace that was never ended has changed the stored objects")
	}
	check.NoError(t, sink.Close())
	catchUp(t, ctx, server.Config(), path, client)

	// AbortReplace must not drop the new state if it follows an EndReplace that took effect. Mirror
	// calls it in this order if EndReplace took effect but returned an error.
	sink = open(t, path)
	rv, err := sink.ResourceVersion()
	check.NoError(t, errors.Join(err, sink.BeginReplace(), sink.EndReplace("5"), sink.AbortReplace(), sink.BeginReplace(), sink.AbortReplace()))
	if now, err := sink.ResourceVersion(); now != "5" || err != nil || contents(t, sink) != "" || rv == now {
		t.Errorf("at %s (%v) it has %.100s", now, err, contents(t, sink))
	}
	check.NoError(t, sink.Close())
	if _, err := openBoltSink(path, "nodes of a test"); !errors.Is(err, errOther) {
		t.Errorf("for another resource: %v", err)
	}
	server.Compact()
	catchUp(t, ctx, server.Config(), path, client)

	var out bytes.Buffer
	if err := run(ctx, []string{"--db", path}, &out, &out); err != nil || strings.Count(out.String(), "\n") != 1199 {
		t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
	}
}

// touch changes the labels of a pod. If n is 0, it also deletes another pod.
func touch(t *testing.T, ctx context.Context, client kubernetes.Interface, n int) {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 10})
	check.NoError(t, err)
	pod := &pods.Items[5]
	pod.Labels = map[string]string{"touched": fmt.Sprint(n)}
	if _, err := client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if gone := &pods.Items[0]; n == 0 {
		check.NoError(t, client.CoreV1().Pods(gone.Namespace).Delete(ctx, gone.Name, metav1.DeleteOptions{}))
	}
}

// catchUp runs Mirror until the database equals the server's state.
func catchUp(t *testing.T, ctx context.Context, cfg *rest.Config, path string, client kubernetes.Interface) {
	t.Helper()
	sink := open(t, path)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- weir.Mirror[*unstructured.Unstructured](ctx, cfg, weir.Options{Resource: corev1.SchemeGroupVersion.WithResource("pods")}, sink)
	}()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	var want strings.Builder
	for _, p := range pods.Items {
		fmt.Fprintf(&want, "%s/%s %s %v\n", p.Namespace, p.Name, p.ResourceVersion, p.Labels["touched"])
	}
	for tick := time.NewTicker(20 * time.Millisecond); contents(t, sink) != want.String(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it never has what the server has")
		}
	}
	cancel()
	check.NoError(t, errors.Join(<-ended, sink.Close()))
}

func open(t *testing.T, path string) *boltSink {
	t.Helper()
	sink, err := openBoltSink(path, "pods of a test")
	check.NoError(t, err)
	return sink
}

// contents returns the stored objects, in key order.
func contents(t *testing.T, sink *boltSink) string {
	t.Helper()
	var out strings.Builder
	err := view(sink.db, func(key string, raw []byte) error {
		pod, err := weir.Decode[*metav1.PartialObjectMetadata](raw)
		if err == nil {
			fmt.Fprintf(&out, "%s %s %v\n", key, pod.ResourceVersion, pod.Labels["touched"])
		}
		return err
	})
	check.NoError(t, err)
	return out.String()
}

// TestRunRefuses checks that run returns errors for wrong arguments.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	locked, other, missing := filepath.Join(dir, "locked.db"), filepath.Join(dir, "other.db"), filepath.Join(dir, "missing.db")
	defer open(t, locked).Close()
	if db, err := bbolt.Open(other, 0o600, nil); err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want --db":                     {},
		"at most one resource":          {"--db", "x", "pods", "nodes"},
		"flag provided but not defined": {"--nope"},
		"another process has it open":   {"--db", locked},
		"open " + dir + ": ":            {"--db", dir},
		"no such file":                  {"--db", missing},
		errNotOurs.Error():              {"--db", other},
	} {
		var out bytes.Buffer // receives the usage text
		if err := run(t.Context(), args, &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
