package request

import (
	"encoding/base64"
	"testing"
)

func TestForeignToken(t *testing.T) {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":5,"start":"ns/b"}`))
	if tok, err := ParseContinueToken(text); err == nil {
		t.Errorf("a token of kube-apiserver is parsed as %+v", tok)
	}
}

func FuzzToken(f *testing.F) {
	f.Add(ContinueToken{ResourceVersion: 5, Start: "a/b"}.String())
	f.Add(ContinueToken{ResourceVersion: Inconsistent, MinResourceVersion: 5, Start: "a"}.String())
	f.Add("eyJydiI6MX0")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := ParseContinueToken(text)
		if err != nil {
			return
		}
		again, err := ParseContinueToken(tok.String())
		if err != nil || *again != *tok {
			t.Errorf("%+v became %+v, %v", tok, again, err)
		}
	})
}
