package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestTerminals checks that the proxy forwards a read if kube-apiserver would indent its answer,
// except for browsers. kube-apiserver indents only JSON, and never a WATCH.
func TestTerminals(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 1}, Options{Resources: []string{"pods"}})
	const protobuf = "application/vnd.kubernetes.protobuf"
	for agent, indents := range map[string]bool{"curl/8.5.0": true, "Wget/1.21": true, "Mozilla/5.0 (X11)": false, "kubectl/v1.37.0": false} {
		for accept, json := range map[string]bool{
			"": true, "*/*": true, "application/json": true, "application/json," + protobuf: true, protobuf: false, protobuf + ",application/json": false,
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": true, protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": false,
		} {
			for path, indentable := range map[string]bool{
				"/api/v1/pods?resourceVersion=0": true, "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1": false,
			} {
				if strings.Contains(accept, "as=") && !indentable {
					continue // no WATCH returns a PartialObjectMetadataList
				}
				tp.get("jane", path, "User-Agent", agent, "Accept", accept)
				check.Equal(t, len(u.forwarded("/api/v1/")) == 0, !(indents && json && indentable), "%s %s %q: answered here", agent, path, accept)
			}
		}
		tp.get("jane", "/api/v1/namespaces/default/pods/x?resourceVersion=0", "User-Agent", agent)
		check.Equal(t, len(u.forwarded("/api/v1/")) == 0, !indents, "%s, a GET: answered here", agent)
	}
}

// TestLongTargetsAreNotKept checks that the long host of an absolute request target does not remain
// in memory after the request.
func TestLongTargetsAreNotKept(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	const requests, size = 50, 200 << 10
	host := strings.Repeat("a", size)
	ask := func(n int) {
		for i := range n {
			r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("https://%s/version?%d", host, i), nil).WithContext(tp.ctx)
			tp.server.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	used := func() int64 {
		u.forwarded("")
		return heapAfterGC()
	}
	ask(5)
	before := used()
	ask(requests)
	if grown := used() - before; grown > requests*size/4 {
		t.Errorf("%d requests have left %d bytes", requests, grown)
	}
}
