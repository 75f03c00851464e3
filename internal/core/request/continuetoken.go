package request

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// ContinueToken says at which key the next page of a LIST starts, and to which resourceVersion the
// pages belong. A client may request the first page from Weir and the next one from kube-apiserver.
// Its format is therefore kube-apiserver's, with two more fields that kube-apiserver ignores.
// kube-apiserver would respond with 400 to another format, and client-go's pager cannot recover
// from that.
type ContinueToken struct {
	Format string `json:"v"`
	// ResourceVersion is the version of the state that the pages belong to. It is [Inconsistent] if
	// that state is no longer cached; the next page is then of the current state.
	ResourceVersion int64 `json:"rv"`
	// Start is the first key that the next page may contain. It lacks the namespace if the request has
	// one.
	Start string `json:"start"`
	// Maker is weir.dev, which distinguishes a watch cache's token from kube-apiserver's.
	Maker string `json:"by"`
	// MinResourceVersion is set if ResourceVersion is Inconsistent: it is the version of the earlier
	// pages. The next page must not be older, even if another replica serves it.
	MinResourceVersion int64 `json:"least,omitempty"`
}

// Inconsistent is the ResourceVersion of a token if the state of the earlier pages is no longer
// cached.
const Inconsistent = -1

const (
	continueFormat = "meta.k8s.io/v1"
	continueMaker  = "weir.dev"
)

var errBadContinue = errors.New("continue key is not valid")

// NewContinueToken returns a token for the next page of a LIST at version rv, which starts at key.
// namespace is that of the request; "" means all namespaces.
func NewContinueToken(rv uint64, namespace, key string) ContinueToken {
	if namespace != "" {
		key = strings.TrimPrefix(key, namespace+"/")
	}
	return ContinueToken{ResourceVersion: int64(rv), Start: key}
}

// String returns the text of the token.
func (t ContinueToken) String() string {
	t.Format, t.Maker = continueFormat, continueMaker
	raw, _ := json.Marshal(t) // strings and numbers cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseContinueToken parses the text of a token that a watch cache created. It returns an error for
// the tokens of other servers.
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

// Key returns the key at which the next page starts. namespace is that of the request, or "" for
// all namespaces.
func (t *ContinueToken) Key(namespace string) string {
	if namespace == "" {
		return t.Start
	}
	return namespace + "/" + t.Start
}

// MinVersion returns the minimum resourceVersion of the next page.
func (t *ContinueToken) MinVersion() uint64 {
	return uint64(max(t.ResourceVersion, t.MinResourceVersion, 0))
}
