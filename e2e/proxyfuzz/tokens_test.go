package proxyfuzz

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// minter signs tokens of ServiceAccounts with a key that kube-apiserver believes, so that it can
// make those that kube-apiserver would not.
type minter struct {
	key    *ecdsa.PrivateKey
	issuer string
}

// newMinter creates a minter and writes the public key, with which kube-apiserver trusts it, to
// file.
func newMinter(t *testing.T, file string) *minter {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check.NoError(t, err)
	check.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return &minter{key: key}
}

// mint signs a token of a ServiceAccount, good for an hour, with some claims in place of the usual
// ones.
func (m *minter) mint(t *testing.T, of *corev1.ServiceAccount, other map[string]any) string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": m.issuer, "aud": []string{m.issuer}, "sub": "system:serviceaccount:" + of.Namespace + ":" + of.Name,
		"iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": of.Namespace, "serviceaccount": map[string]any{"name": of.Name, "uid": of.UID},
		},
	}
	maps.Copy(claims, other)
	body, err := json.Marshal(claims)
	check.NoError(t, err)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, m.key, digest[:])
	check.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
