package watchcache

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestContinueToken checks that a continue token contains what kube-apiserver requires in its own
// tokens: its format, a state, and a key without the namespace that the request names.
func TestContinueToken(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	for _, name := range []string{"a", "b", "c"} {
		tc.put("ns", name, "red")
	}
	for namespace, want := range map[string]string{"": "ns/b", "ns": "b"} {
		first := tc.list(namespace, "limit=1")
		raw, err := base64.RawURLEncoding.DecodeString(first.Metadata.Continue)
		check.NoError(t, err)
		// kube-apiserver reads only these fields.
		var token struct {
			V, Start string
			RV       int64
		}
		if err := json.Unmarshal(raw, &token); err != nil || token.V != "meta.k8s.io/v1" || token.RV != int64(tc.rv) || token.Start != want {
			t.Errorf("in %q: %s, %v", namespace, raw, err)
		}
		if own, err := request.ParseContinueToken(first.Metadata.Continue); err != nil || own.MinVersion() != tc.rv {
			t.Errorf("in %q: not known as a token of the cache: %v", namespace, err)
		}
		var names []string
		for _, item := range tc.list(namespace, "continue="+first.Metadata.Continue).Items {
			names = append(names, item.Metadata.Name)
		}
		if len(names) != 2 || names[0] != "b" || names[1] != "c" {
			t.Errorf("in %q: the rest is %v", namespace, names)
		}
	}
}
