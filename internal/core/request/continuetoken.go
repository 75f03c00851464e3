package request

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// ContinueToken says where the next page of a LIST starts, and in which state. It is one of
// kube-apiserver's with two more fields, which kube-apiserver ignores: a client may get its first
// page here and the next one there. kube-apiserver refuses a token in another format with 400, from
// which client-go's pager does not recover.
type ContinueToken struct {
	Format string `json:"v"`
	// ResourceVersion is the state that the pages are cut from. If it is [Inconsistent], that state
	// is gone and the next page is of the current one.
	ResourceVersion int64 `json:"rv"`
	// Start is the first key that the next page may hold, without the namespace of the request.
	Start string `json:"start"`
	// Maker tells a watch cache's token from one of kube-apiserver.
	Maker string `json:"by"`
	// MinResourceVersion is the state of the earlier pages, where that is gone. The continuation is
	// no older, even if another replica answers.
	MinResourceVersion int64 `json:"least,omitempty"`
}

// Inconsistent replaces the resourceVersion in a token whose state is gone.
const Inconsistent = -1

const (
	continueFormat = "meta.k8s.io/v1"
	continueMaker  = "weir.dev"
)

var errBadContinue = errors.New("continue key is not valid")

// NewContinueToken returns a token for a LIST in a namespace, or in all if that is empty. The next
// page is of the state rv, and starts at a key.
func NewContinueToken(rv uint64, namespace, key string) ContinueToken {
	if namespace != "" {
		key = strings.TrimPrefix(key, namespace+"/")
	}
	return ContinueToken{ResourceVersion: int64(rv), Start: key}
}

// String returns the text of the token.
func (t ContinueToken) String() string {
	t.Format, t.Maker = continueFormat, continueMaker
	raw, _ := json.Marshal(t) // cannot fail: strings and numbers
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseContinueToken parses the text of a token that a watch cache has made. It returns an error
// for other servers' tokens.
func ParseContinueToken(s string) (*ContinueToken, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, errBadContinue
	}
	t := &ContinueToken{}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, errBadContinue
	}
	if t.Format != continueFormat || t.Maker != continueMaker || t.Start == "" || t.ResourceVersion < Inconsistent || t.ResourceVersion == 0 || t.MinResourceVersion < 0 {
		return nil, errBadContinue
	}
	return t, nil
}

// Key returns the key at which the next page of a LIST in a namespace, or in all, starts.
func (t *ContinueToken) Key(namespace string) string {
	if namespace == "" {
		return t.Start
	}
	return namespace + "/" + t.Start
}

// MinVersion returns the oldest resourceVersion that the next page may be of.
func (t *ContinueToken) MinVersion() uint64 {
	return uint64(max(t.ResourceVersion, t.MinResourceVersion, 0))
}
