package storage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// position is a parsed continue token. The suites create and parse kube-apiserver's. The watch
// cache's has the same content: the state, -1 for the current one, and the first key that may
// follow, without the listed namespace. It also names its creator, which kube-apiserver ignores.
type position struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
	Maker           string `json:"by,omitempty"`
}

const (
	ownMaker = "weir.dev"
	version  = "meta.k8s.io/v1"
)

func parseToken(text string) (t position, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

func (t position) String() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func isInconsistent(text string) bool {
	t, err := parseToken(text)
	return err == nil && t.ResourceVersion < 0
}

// ownToken returns the watch cache's token for one of kube-apiserver's. It leaves it to the watch
// cache to refuse what it says.
func ownToken(text string) (string, error) {
	t, err := parseToken(text)
	if err != nil || t.Version != version {
		return "", fmt.Errorf("continue token %q is not kube-apiserver's: %w", text, err)
	}
	t.Start, t.Maker = strings.TrimPrefix(t.Start, "/"), ownMaker
	return t.String(), nil
}

// pageToken converts the watch cache's token, after a page that ends with the key last, to
// kube-apiserver's. The watch cache names the next key, kube-apiserver the position after the last
// one.
func pageToken(text, prefix, last string) string {
	t, err := parseToken(text)
	if last = strings.TrimPrefix(last, prefix); err != nil || t.Start <= last {
		return text // a suite that reads it fails
	}
	t.Start, t.Maker = last+"\x00", ""
	return t.String()
}

// withTheirToken converts the token in an error to kube-apiserver's.
func withTheirToken(err error, prefix string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Continue == "" {
		return err
	}
	t, parseErr := parseToken(status.ErrStatus.Continue)
	if parseErr != nil {
		return err
	}
	their, encodeErr := apistorage.EncodeContinue(resourcePrefix+prefix+t.Start, resourcePrefix+prefix, t.ResourceVersion)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	out := *status
	out.ErrStatus.Continue = their
	return &out
}
