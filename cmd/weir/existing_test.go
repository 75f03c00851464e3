package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// tenPods are the answers of a server with ten pods, of which those with an even number are not
// ready.
func tenPods() map[string]string {
	var items []string
	for i := range 10 {
		phase := []string{"Pending", "Running"}[i%2]
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"p-%d","namespace":"shop","resourceVersion":"3"},"status":{"phase":%q}}`, i, phase))
	}
	return map[string]string{
		"/api/v1/pods": `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join(items, ",") + `]}`,
	}
}

// TestPrintExisting checks which objects are printed at the start: on a small terminal, first those
// that need attention, and as many as fit.
func TestPrintExisting(t *testing.T) {
	server := serveAnswers(t, tenPods())
	const all = "p-0 p-1 p-2 p-3 p-4 p-5 p-6 p-7 p-8 p-9"
	for _, tc := range []struct {
		name   string
		height int
		flags  watchFlags
		names  string
		text   string
	}{
		{name: "a tall terminal", height: 16, names: all},
		{name: "one row is missing", height: 15, names: "p-0 p-2 p-4 p-6 p-8 p-1 p-3 p-5 p-7", text: "… and 1 more pod, all healthy; --all prints them"},
		{name: "not all that need attention fit", height: 10, names: "p-0 p-2 p-4 p-6", text: "… and 6 more pods, 1 of them not healthy; --all prints them"},
		{name: "a tiny terminal", height: 2, names: "p-0 p-2 p-4", text: "… and 7 more pods, 2 of them not healthy; --all prints them"},
		{name: "no terminal", names: all},
		{name: "--all", height: 10, flags: watchFlags{all: true}, names: all},
		{name: "--only-changes", height: 10, flags: watchFlags{onlyChanges: true}},
		{name: "--once", height: 9, flags: watchFlags{once: true}, names: "p-0 p-2 p-4", text: "… and 7 more pods, 2 of them not healthy; --all prints them"},
		{name: "an output for programs", height: 10, flags: watchFlags{output: outputName}, names: all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			c := syncedWith[*unstructured.Unstructured](t, &rest.Config{Host: server.URL}, &out, &tc.flags)
			c.sheet.size = func() (int, int) { return 80, tc.height }
			check.NoError(t, c.printExisting(t.Context()))
			var names []string
			var text string
			for line := range strings.Lines(out.String()) {
				switch word := strings.Fields(line); {
				case word[0] == "…":
					text = strings.TrimSpace(line)
				case word[0] != "NAMESPACE":
					names = append(names, strings.TrimPrefix(word[min(1, len(word)-1)], "pod/"))
				}
			}
			check.Equal(t, strings.Join(names, " "), tc.names, "names")
			check.Equal(t, text, tc.text, "text")
		})
	}
}

// TestPrintExistingInterrupted checks that an interrupt ends the output without a number of further
// objects, which is then not known.
func TestPrintExistingInterrupted(t *testing.T) {
	var out bytes.Buffer
	c := syncedWith[*unstructured.Unstructured](t, &rest.Config{Host: serveAnswers(t, tenPods()).URL}, &out, &watchFlags{})
	c.sheet.size = func() (int, int) { return 80, 10 }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.NoError(t, c.printExisting(ctx))
	check.Equal(t, out.String(), "", "output")
}
