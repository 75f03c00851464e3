package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/informertest"
)

// pod returns a pod whose container has restarted n times.
func pod(n int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: n}}},
	}
}

// TestRestarts uses package apiserver, a server of all kinds to which clients can write. A pipe
// connects the program's output to the test.
func TestRestarts(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	pods := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
	created, err := pods.Create(t.Context(), pod(1), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status = pod(1).Status
	if created, err = pods.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	read, write := io.Pipe()
	defer read.Close() // unblocks a handler that prints too much
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.Config(), write) }()
	lines := bufio.NewScanner(read)
	want := func(want string) {
		t.Helper()
		if lines.Scan(); lines.Text() != want {
			t.Errorf("it prints %q, want %q", lines.Text(), want)
		}
	}
	want("default/web-0: 1 restarts")
	created.Status = pod(2).Status
	if _, err = pods.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want("default/web-0: 2 restarts")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOutages uses package informertest, a server of pods that fails as a test says. The server
// refuses the first requests, and later loses the changes of an outage. In the bubble of synctest,
// the waits of the informer cost no time.
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer()
		defer server.Close()
		server.Put(pod(0))
		server.Answer(informertest.List, 1, informertest.Answer{Status: informertest.Forbidden()})
		server.Answer(informertest.Watch, 1, informertest.Answer{Status: informertest.Forbidden()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var out strings.Builder
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, server.Config(), &out) }()
		time.Sleep(10 * time.Minute)
		server.SetDown(true)
		server.Put(pod(1))
		server.Put(pod(3))
		server.Compact()
		time.Sleep(time.Minute)
		server.SetDown(false)
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got, want := out.String(), "default/web-0: 3 restarts\n"; got != want {
			t.Errorf("it prints %q, want %q", got, want)
		}
	})
}
