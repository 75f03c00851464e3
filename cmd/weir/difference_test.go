package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestWriteDiff checks that a change without relevant fields is one line, and that the number of
// printed lines is limited.
func TestWriteDiff(t *testing.T) {
	var out bytes.Buffer
	writeDiff(&out, nil, 0, false)
	check.Equal(t, out.String(), "    nothing but the resourceVersion and managedFields\n")
	out.Reset()
	writeDiff(&out, []humanize.Change{{Sign: '+', Path: "a", New: true}, {Sign: '-', Path: "b", Old: strings.Repeat("x", 90)}}, 30, true)
	want := "    \x1b[32m+ a: true\x1b[0m\n    \x1b[31m- b: xxxxxxxxxxxxxxxxxxxx…\x1b[0m\n"
	check.Equal(t, out.String(), want)
	out.Reset()
	writeDiff(&out, []humanize.Change{{Sign: '+', Path: "a\x1b[2J", New: map[string]any{"b": "\u009b2J"}}}, 0, false)
	check.Equal(t, out.String(), "    + a?[2J: {\"b\":\"?2J\"}\n")
	out.Reset()
	writeDiff(&out, make([]humanize.Change, maxDifferences+2), 0, false)
	if got := out.String(); strings.Count(got, "\n") != maxDifferences+1 || !strings.HasSuffix(got, "    … and 2 more changes\n") {
		t.Errorf("got %q", got)
	}
}

// lineSignal is a writer that sends each written line to its channel.
type lineSignal struct{ lines chan string }

func (l lineSignal) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l.lines <- strings.TrimSuffix(line, "\n")
	}
	return len(p), nil
}

// until waits for a line that contains text.
func (l lineSignal) until(text string) string {
	for line := range l.lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// patch applies a merge patch to an object on a server.
func patch(t *testing.T, server *apiserver.Server, of schema.GroupVersionResource, namespace, name, merge string) {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config())
	check.NoError(t, err)
	_, err = client.Resource(of).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	check.NoError(t, err)
}

// TestDiff checks that weir watch --diff prints a change that was made on a server.
func TestDiff(t *testing.T) {
	server := startServer(t, 0)
	out, says := lineSignal{make(chan string, 64)}, lineSignal{make(chan string, 64)}
	end := start(t, out, says, "watch", "widgets", "-A", "--diff", "--only-changes", "-s", server.URL())
	says.until("in sync")
	patch(t, server, widgets, "shop", "cog", `{"metadata":{"labels":{"part":"gear","x":"y"}},"spec":{"teeth":12}}`)
	patch(t, server, widgets, "shop", "cog", `{"metadata":{"labels":{"x":null}},"spec":{"teeth":13}}`)
	for _, want := range []string{
		"NAMESPACE", "MODIFIED", "    ~ metadata.labels.part: cog → gear", "    + metadata.labels.x: y", "    + spec.teeth: 12",
		"MODIFIED", "    - metadata.labels.x: y", "    ~ spec.teeth: 12 → 13",
	} {
		got := <-out.lines
		for strings.Contains(got, " metadata.generation: ") {
			got = <-out.lines
		}
		if got != want && (strings.HasPrefix(want, " ") || !strings.Contains(got, want)) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestDiffOfUnknownField checks that a field that the linked built-in types lack is printed like
// any other field.
func TestDiffOfUnknownField(t *testing.T) {
	leases := coordinationv1.SchemeGroupVersion.WithResource("futureleases")
	server := startPlain(t, apiserver.Options{
		Resources: []apiserver.Resource{{GroupVersionResource: leases, Kind: "Lease", Namespaced: true}},
	})
	client, err := dynamic.NewForConfig(server.Config())
	check.NoError(t, err)
	lease := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "a"}}}
	if _, err := client.Resource(leases).Namespace("shop").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n, tc := range []struct {
		flag, want string
		lines      int // the number of lines after which the output ends
	}{
		{"--diff", "    + spec.fromTheFuture: 0", 5},
		{"--output=json", `"fromTheFuture":1`, 2},
		{"--output=jsonpath=.spec.fromTheFuture", "2", 2},
		{"--output=custom-columns=F:.spec.fromTheFuture", "3", 3},
	} {
		out, says := lineSignal{make(chan string, 64)}, lineSignal{make(chan string, 64)}
		end := start(t, out, says, "watch", "futureleases", "-A", tc.flag, "--only-changes", "-s", server.URL())
		says.until("in sync")
		patch(t, server, leases, "shop", "a", fmt.Sprintf(`{"spec":{"fromTheFuture":%d}}`, n))
		patch(t, server, leases, "shop", "a", fmt.Sprintf(`{"metadata":{"labels":{"n":"n%d"}}}`, n))
		var said []string
		for found := false; !found && len(said) < tc.lines; {
			line := <-out.lines
			said, found = append(said, line), strings.Contains(line, tc.want)
		}
		if last := said[len(said)-1]; !strings.Contains(last, tc.want) {
			t.Errorf("%s: no %q in %q", tc.flag, tc.want, said)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// TestDiffOfSecret checks that the values of a Secret are not printed.
func TestDiffOfSecret(t *testing.T) {
	server := startPlain(t, apiserver.Options{})
	client, err := kubernetes.NewForConfig(server.Config())
	check.NoError(t, err)
	secrets := client.CoreV1().Secrets("shop")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"pin": []byte("1234")}}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, says := lineSignal{make(chan string, 64)}, lineSignal{make(chan string, 64)}
	end := start(t, out, says, "watch", "secrets", "-A", "--diff", "--only-changes", "-s", server.URL())
	says.until("in sync")
	secret.Data = map[string][]byte{"pin": []byte("5678"), "puk": []byte("90")}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.until("MODIFIED")
	for _, want := range []string{"    ~ data.pin: (hidden), differs", "    + data.puk: (hidden)"} {
		check.Equal(t, <-out.lines, want)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
