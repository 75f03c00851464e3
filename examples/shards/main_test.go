package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestShards checks that three shards print each pod exactly once, those at the start and new ones.
func TestShards(t *testing.T) {
	const old, created, count = 100, 20, 3
	server, err := apiserver.New(apiserver.Options{Pods: old, AnyNamespace: true})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	read, write := io.Pipe()
	defer read.Close() // unblocks a handler that prints too much
	ended := make(chan error, count)
	for i := range count {
		go func() { ended <- run(ctx, server.Config(), weir.Shard{Index: i, Count: count}, write) }()
	}
	lines := bufio.NewScanner(read)
	printed := map[string]int{}
	next := func(n int) {
		for ; n > 0 && lines.Scan(); n-- {
			kind, pod, _ := strings.Cut(lines.Text(), " ")
			check.Equal(t, kind, "ADDED")
			printed[pod]++
		}
		check.NoError(t, lines.Err())
	}
	next(old)
	client := kubernetes.NewForConfigOrDie(server.Config())
	for i := range created {
		_, err := client.CoreV1().Pods("new").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i)}}, metav1.CreateOptions{})
		check.NoError(t, err)
	}
	next(created)
	check.Equal(t, len(printed), old+created, "pods are printed")
	cancel()
	read.Close()
	for range count {
		check.NoError(t, <-ended)
	}
	if err := run(t.Context(), server.Config(), weir.Shard{Index: 2, Count: 2}, io.Discard); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("a shard that does not exist: %v", err)
	}
}
