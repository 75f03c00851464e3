package proxy

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// TestDoesNotFit checks a resource that is larger than the budget. The proxy evicts it before it is
// loaded completely, and evicts no other resource for it. Reads of the large resource are
// forwarded.
func TestDoesNotFit(t *testing.T) {
	const limit = 200 << 10
	u, tp := start(t, apiserver.Options{Pods: 1000}, Options{MemoryBudget: limit})
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	tp.get("jane", "/api/v1/nodes?resourceVersion=0")
	tp.until("nodes are cached", func() bool { return tp.serves(nodes) })
	tp.get("jane", "/api/v1/pods?resourceVersion=0&limit=1&labelSelector=none")
	tp.until("pods are let go", func() bool { return tp.server.evictions() == 1 && tp.server.mirror.Find(podsResource) == nil })
	// Between two checks of the budget, up to 1 MiB of the upstream's response is read. It needs less
	// memory after it has been packed.
	if _, used, _ := tp.server.mirror.Budget.Usage(); used > limit+mirror.EvictAfterBytes {
		t.Errorf("%d bytes were cached", used)
	}
	if res := tp.server.mirror.Find(nodes); res == nil || res.Serving() == nil || tp.server.mirror.CanAdd(podsResource) {
		t.Error("nodes had to make room")
	}
	u.forwarded("")
	if code, _ := tp.get("jane", "/api/v1/pods?resourceVersion=0&labelSelector=none"); code != http.StatusOK || len(u.forwarded("/api/v1/pods")) != 1 {
		t.Errorf("%d", code)
	}
}

// TestOutgrown checks that the watches of a resource end when it grows beyond the budget. A client
// then resumes at the upstream and misses nothing.
func TestOutgrown(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{MemoryBudget: 512 << 10})
	tp.get("jane", "/api/v1/configmaps?resourceVersion=0")
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	tp.until("they are cached", func() bool { return tp.serves(maps) })
	lines := tp.watch("jane", "/api/v1/configmaps?watch=true&resourceVersion=0")
	tp.until("it watches", func() bool { return tp.server.mirror.Find(maps).Watching() == 1 })
	const many = 60
	client := u.writerPast().CoreV1().ConfigMaps("default")
	random := rand.New(rand.NewPCG(1, 1)) // regular data would be compressed to almost nothing
	for i := range many {
		name, text := "m"+strings.Repeat("i", i+1), make([]byte, 32<<10)
		for j := range text {
			text[j] = byte('a' + random.IntN(26))
		}
		must(t)(client.Create(tp.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": string(text)}}, metav1.CreateOptions{}))
	}
	seen, last := 0, "0"
	take := func(line string) {
		var e struct {
			Type   string
			Object struct{ Metadata metav1.ObjectMeta }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "ADDED" || len(e.Object.Metadata.Name) != seen+2 {
			t.Fatalf("%.200s after %d: %v", line, seen, err)
		}
		seen, last = seen+1, e.Object.Metadata.ResourceVersion
	}
	for line := range lines { // until the proxy ends the watch
		take(line)
	}
	if seen == many {
		t.Fatal("it all fitted")
	}
	u.forwarded("")
	lines = tp.watch("jane", "/api/v1/configmaps?watch=true&resourceVersion="+last)
	for seen < many {
		take(tp.next(lines, "ADDED"))
	}
	if len(u.forwarded("/api/v1/configmaps")) != 1 || tp.server.mirror.Find(maps) != nil || tp.server.evictions() != 1 {
		t.Error("it did not go on upstream")
	}
}

// TestPagesAreInBudget checks that old versions of objects, which the proxy stores for later pages
// of a list, count as memory of the resource.
func TestPagesAreInBudget(t *testing.T) {
	const many = 300
	u, tp := startReady(t, apiserver.Options{Pods: many}, Options{Resources: []string{"pods"}, LogBytes: 10_000})
	res := tp.resource("pods")
	s := res.State().Session
	serveFrom(s.Cache(), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods?limit=1", nil))
	before, packed := res.State().Bytes(), s.Store().Memory().Packed
	client := u.writerPast().CoreV1()
	all, err := client.Pods("").List(tp.ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) != many {
		t.Fatal(len(all.Items), err)
	}
	for i := range all.Items {
		p := &all.Items[i]
		p.Labels = map[string]string{"changed": "yes"}
		must(t)(client.Pods(p.Namespace).Update(tp.ctx, p, metav1.UpdateOptions{}))
	}
	tp.until("all have changed", func() bool { return s.Cache().Stats().Changes >= many })
	if after := res.State().Bytes(); after < before+packed/2 {
		t.Errorf("%d bytes, and %d before, of which %d are pods", after, before, packed)
	}
}

func (s *Server) evictions() uint64 {
	_, _, n := s.mirror.Budget.Usage()
	return n
}
