package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
)

// TestResponseMemory checks a user who does not read the responses to its GETs and LISTs. The
// responses use no more memory than the user's share, whether the proxy answers or forwards the
// requests. Meanwhile other users are answered. GETs of the same object share its bytes. The proxy
// does not refuse a read that the upstream has already answered, nor a read of a client that reads
// its responses.
func TestResponseMemory(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	const objects, size, memory = 16, 256 << 10, 4 << 20
	const large = "/api/v1/namespaces/default/configmaps/large-"
	maps := u.writer().CoreV1().ConfigMaps("default")
	var cached, forwarded []string
	for i := range objects {
		name := fmt.Sprint("large-", i)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": strings.Repeat("0123456789abcdef", size/16)}}
		must(t)(maps.Create(t.Context(), cm, metav1.CreateOptions{}))
		at := large + fmt.Sprint(i)
		cached, forwarded = append(cached, at+"?resourceVersion=0"), append(forwarded, at)
	}
	tp := startProxy(t, u, Options{Resources: []string{"configmaps"}, ResponseMemory: memory})
	tp.ready()
	tp.get("jane", forwarded[0]) // so that the upstream accepts the token
	tp.get("jane", cached[0])
	used := func() (n int64) {
		for _, l := range tp.server.seats.Unread.Usage() {
			n += l.Used
		}
		return n
	}
	const list = "/api/v1/namespaces/default/configmaps?resourceVersion=0"
	for what, paths := range map[string][]string{
		"the same object": slices.Repeat(cached[:1], 3*objects), "objects": cached, "forwarded": forwarded, "lists": slices.Repeat([]string{list}, objects),
	} {
		c := tp.dialUnread()
		u.forwarded(large) // discards the earlier requests
		codes := c.request("jane", paths...)
		if n := len(u.forwarded(large)); what == "forwarded" && n != codes["200"] {
			t.Errorf("%d reads are forwarded: %v", n, codes)
		}
		if codes["200"] == 0 || codes["200"]+codes["429"] != len(paths) || (codes["429"] == 0) != (what == "the same object") {
			t.Errorf("%s: %v", what, codes)
		}
		if n := used(); n > memory/2 || n < size {
			t.Errorf("%s: %d bytes", what, n)
		}
		if code, body := tp.get("john", cached[1]); code != 200 {
			t.Errorf("%s: another user: %d %.200s", what, code, body)
		}
		c.Close()
		tp.until(what+": all is free again", func() bool { return used() == 0 })
	}
	var wg sync.WaitGroup
	for i := range 4 * objects {
		wg.Go(func() {
			if code, body := tp.get("jane", forwarded[i%objects]); code != 200 {
				t.Errorf("one of many reads at the same time: %d %.200s", code, body)
			}
		})
	}
	wg.Wait()
	if _, page := tp.get("jane", "/metrics"); !strings.Contains(page, `weir_proxy_response_memory_refused_total{level="known"}`) ||
		strings.Contains(page, `weir_proxy_response_memory_refused_total{level="known"} 0`) {
		t.Error("metrics do not count the refused reads")
	}
}
