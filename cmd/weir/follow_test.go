package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/testing/check"
)

var podResource = serverResource{
	GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
	Kind:                 corev1.SchemeGroupVersion.WithKind("Pod"),
	Singular:             "pod",
	Namespaced:           true,
}

// synced runs an informer of pods on an embedded server and waits for its sync. It returns the
// changes value that prints the informer's events to out.
func synced[T weir.Object](t *testing.T, out *bytes.Buffer, output string) *changes[T] {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{Pods: 3, Seed: 1})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	check.NoError(t, server.Start())
	return syncedWith[T](t, server.Config(), out, &watchFlags{output: output})
}

// syncedWith is like synced, with a server and with the flags of the command.
func syncedWith[T weir.Object](t *testing.T, cfg *rest.Config, out *bytes.Buffer, flags *watchFlags) *changes[T] {
	t.Helper()
	inf, err := weir.NewInformer[T](cfg, weir.Options{Resource: podResource.GroupVersionResource})
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	check.NoError(t, inf.WaitForSync(t.Context()))
	format, err := parseFormat(flags.output)
	check.NoError(t, err)
	w := &watch{watchFlags: flags, format: format, resource: podResource, err: out, columns: columns.Of(podResource.Kind)}
	w.sheet = newSheet(out, w)
	return newChanges(w, inf)
}

// TestText checks that the JSON of an object states its apiVersion and kind, and has its name and
// status.
func TestText(t *testing.T) {
	var out bytes.Buffer
	c := synced[*unstructured.Unstructured](t, &out, outputJSON)
	for item := range c.inf.Snapshot().Items() {
		text, err := c.text(item)
		check.NoError(t, err)
		var u unstructured.Unstructured
		check.NoError(t, json.Unmarshal(text, &u.Object))
		if u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" || u.GetNamespace()+"/"+u.GetName() != item.Key() || u.Object["status"] == nil {
			t.Errorf("%s is %s", item.Key(), text)
		}
	}
}

// TestMore checks that a pod's row is the same for both encodings, protobuf and JSON.
func TestMore(t *testing.T) {
	var out bytes.Buffer
	typed := synced[*corev1.Pod](t, &out, outputWide)
	untyped := synced[*unstructured.Unstructured](t, &out, outputWide)
	now := time.Now()
	for item := range typed.inf.Snapshot().Items() {
		a, err := typed.more(item, now)
		check.NoError(t, err)
		other, ok := untyped.inf.Item(item.Key())
		if !ok {
			t.Fatalf("%s is missing", item.Key())
		}
		b, err := untyped.more(other, now)
		check.NoError(t, err)
		if len(a) != 8 || a[0] != "2/2" || !slices.Equal(a, b) {
			t.Errorf("%s: %q as protobuf, %q as JSON", item.Key(), a, b)
		}
	}
}

func TestPrintOnceNames(t *testing.T) {
	var out bytes.Buffer
	c := synced[*corev1.Pod](t, &out, outputName)
	check.NoError(t, c.printOnce(t.Context(), syncSummary{}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "pod/") {
		t.Errorf("got %q", lines)
	}
}

func TestSyncSummary(t *testing.T) {
	s := syncSummary{resource: podResource, Stats: weir.Stats{
		Objects: 50_000, Requests: 1, WireBytes: 18_000_000,
		Memory: weir.Memory{Raw: 248_000_000, Packed: 31_000_000, Keys: 4_400_000, Dictionary: 20_480},
	}, elapsed: 1618 * time.Millisecond, encoding: weir.Protobuf}
	check.Equal(t, s.String(), "50,000 pods in sync after 1.62 s; 35.4 MB in memory (client-go: about 744 MB)")
	s.encoding, s.verbose = weir.JSON, true
	check.Equal(t, s.String(), "50,000 pods in sync after 1.62 s; 35.4 MB in memory (client-go: about 1.49 GB); 18.0 MB on the wire, "+
		"packed 31.0 MB, keys 4.40 MB, dictionary 20.5 KB, 1 request")
	check.Equal(t, (syncSummary{resource: podResource}).String(), "0 pods in sync after 0 ns; 0 B in memory")
}

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "pods", 0)
	p.begin = p.begin.Add(-3 * time.Second)
	p.show(1, 1) // too soon
	p.said = p.said.Add(-progressLine)
	p.show(30_000, 150_000_000)
	p.say("one\ntwo")
	p.end()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "pods: 30,000 objects, 150 MB, ") || lines[1] != "one; two" {
		t.Errorf("got %q", out.String())
	}
}

func TestHopeless(t *testing.T) {
	for _, tc := range []struct {
		err      error
		attempts int
		want     bool
	}{
		{weir.ErrForbidden, 1, true},
		{weir.ErrUnauthorized, 1, true},
		{weir.ErrUnknownResource, 1, true},
		{weir.ErrMalformed, 1, true},
		{weir.ErrRejected, 1, true},
		{weir.ErrEncoding, 1, true},
		{weir.ErrUnreachable, 1, false},
		{weir.ErrUnreachable, patience, true},
		{weir.ErrTooManyRequests, 9, false},
		{weir.ErrExpired, 9, false},
	} {
		s := weir.Status{Err: fmt.Errorf("pods: %w", tc.err), Attempts: tc.attempts}
		check.Equal(t, hopeless(s), tc.want, "%v after %d attempts", tc.err, tc.attempts)
	}
	skipped := fmt.Errorf("pods: %w", weir.ErrMalformed)
	if hopeless(weir.Status{Err: skipped, Skipped: 1, SkippedErr: skipped}) {
		t.Error("one object cannot be read, and there is no hope for the others")
	}
}

// TestReport checks that report prints each kind of error once, and prints when the error is
// resolved.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	statuses := make(chan weir.Status)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := (&watch{err: &out}).report(ctx, statuses, nil); err != nil {
			t.Error(err)
		}
	}()
	trouble := func(sentinel error, text string) error {
		return &reflector.Error{Sentinel: sentinel, Err: errors.New(text)}
	}
	for _, err := range []error{
		nil, trouble(weir.ErrUnreachable, "one"), trouble(weir.ErrUnreachable, "two"), trouble(weir.ErrExpired, "three"), nil, nil,
	} {
		statuses <- weir.Status{Err: err}
	}
	skipped := trouble(weir.ErrMalformed, "four")
	for n := range 2 {
		statuses <- weir.Status{Err: skipped, Skipped: n + 1, SkippedErr: skipped}
	}
	cancel()
	<-done
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(line, "  ")
		got = append(got, text)
	}
	want := []string{
		"the server cannot be reached: one; trying again\n", "the resource version is too old: three; trying again\n", "current again\n",
		"1 object cannot be read: the answer cannot be read: four\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
