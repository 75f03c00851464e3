package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/util/keyutil"
)

const (
	adminName = "weir-admin"

	tokenFile             = "tokens.csv"
	serviceAccountKeyFile = "service-account.key"
	certDir               = "certs"
)

// newCredentials generates a token for the admin and each user, and a key to sign service account
// tokens. It writes the tokens and the key into dir, from which the API server reads them, and
// returns the tokens by the users' names. It returns an error if a user's name is empty or occurs
// twice.
func newCredentials(dir string, users []User) (tokens map[string]string, err error) {
	tokens = map[string]string{}
	var lines [][]string
	for _, u := range append([]User{{Name: adminName, Groups: []string{"system:masters"}}}, users...) {
		if _, known := tokens[u.Name]; known || u.Name == "" {
			return nil, fmt.Errorf("user %q: the name is empty or was there before", u.Name)
		}
		tokens[u.Name] = rand.Text()
		lines = append(lines, []string{tokens[u.Name], u.Name, u.Name, strings.Join(u.Groups, ",")})
	}
	var table bytes.Buffer
	if err = csv.NewWriter(&table).WriteAll(lines); err == nil {
		err = os.WriteFile(filepath.Join(dir, tokenFile), table.Bytes(), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("writing tokens: %w", err)
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err == nil {
		err = keyutil.WriteKey(filepath.Join(dir, serviceAccountKeyFile), key)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a service account key: %w", err)
	}
	return tokens, nil
}
