package informertest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestParametersAreRefused checks which parameters the server refuses: those that kube-apiserver
// refuses. The server is at resourceVersion 1003.
func TestParametersAreRefused(t *testing.T) {
	server := informertest.NewServer()
	defer server.Close()
	for _, name := range []string{"a", "b", "c"} {
		server.Put(podNamed(name))
	}
	_, first := get(t, server, "limit=1")
	token := "continue=" + url.QueryEscape(first.Continue)
	for _, test := range []struct {
		query string
		code  int
	}{
		{"", 200},
		{"limit=1&" + token, 200},
		{"resourceVersion=0&limit=1&" + token, 200},
		{"resourceVersion=1003&limit=1&" + token, 400},
		{"resourceVersion=1003&resourceVersionMatch=NotOlderThan&" + token, 422},
		{"resourceVersion=0&resourceVersionMatch=NotOlderThan&" + token, 422},
		{"resourceVersion=1001", 200},
		{"resourceVersion=1001&limit=500&resourceVersionMatch=NotOlderThan", 200},
		{"resourceVersion=1001&limit=500", 410},
		{"resourceVersion=1003&limit=500", 200},
		{"resourceVersion=1001&resourceVersionMatch=Exact", 410},
		{"resourceVersion=1003&resourceVersionMatch=Exact", 200},
		{"resourceVersion=0&resourceVersionMatch=Exact", 422},
		{"resourceVersion=1003&resourceVersionMatch=Newest", 422},
		{"resourceVersionMatch=NotOlderThan", 422},
		{"resourceVersion=one", 400},
		{"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", 422},
		{"watch=1&resourceVersion=1003", 200},
		{"watch=1&resourceVersion=one", 422},
		{"watch=1&resourceVersion=1003&resourceVersionMatch=NotOlderThan", 422},
		{"watch=1&sendInitialEvents=true", 422},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 200},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" + token, 422},
	} {
		if code, _ := get(t, server, test.query); code != test.code {
			t.Errorf("%s: %d, want %d", test.query, code, test.code)
		}
	}
}

// get requests the pods. It returns the code of the answer, and the list's metadata if the answer
// is a list.
func get(t *testing.T, server *informertest.Server, query string) (int, metav1.ListMeta) {
	t.Helper()
	cfg := server.Config()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+"/api/v1/pods?"+query, http.NoBody)
	check.NoError(t, err)
	answer, err := cfg.Transport.RoundTrip(req)
	check.NoError(t, err)
	defer answer.Body.Close()
	var list metav1.PartialObjectMetadataList
	if answer.StatusCode == http.StatusOK && req.URL.Query().Get("watch") == "" {
		check.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
	}
	return answer.StatusCode, list.ListMeta
}
