package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	adminName = "weir-admin"

	tokenFile             = "tokens.csv"
	serviceAccountKeyFile = "service-account.key"
	certDir               = "certs"
)

// credentials are the tokens that the API server accepts.
type credentials struct {
	tokens map[string]string // by the user's name
}

// newCredentials generates a token for the admin and each user, and a key to sign service account
// tokens. It writes the tokens and the key into dir, from which the API server reads them. It
// returns an error if a user's name is empty or occurs twice.
func newCredentials(dir string, users []User) (*credentials, error) {
	c := &credentials{tokens: map[string]string{}}
	path := filepath.Join(dir, tokenFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing tokens: %w", err)
	}
	defer f.Close()
	w := csv.NewWriter(f)
	for _, u := range append([]User{{Name: adminName, Groups: []string{"system:masters"}}}, users...) {
		if _, known := c.tokens[u.Name]; known || u.Name == "" {
			return nil, fmt.Errorf("user %q: the name is empty or was there before", u.Name)
		}
		token := rand.Text()
		c.tokens[u.Name] = token
		if err := w.Write([]string{token, u.Name, u.Name, strings.Join(u.Groups, ",")}); err != nil {
			return nil, fmt.Errorf("writing tokens: %w", err)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return nil, fmt.Errorf("writing tokens: %w", err)
	}
	return c, writeServiceAccountKey(filepath.Join(dir, serviceAccountKeyFile))
}

func writeServiceAccountKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a service account key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("making a service account key: %w", err)
	}
	raw := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("writing a service account key: %w", err)
	}
	return nil
}
