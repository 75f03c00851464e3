package request

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// ContinueToken says at which key the next page of a LIST starts, and to which resourceVersion the
// pages belong. A client may request the first page from Weir and the next one from kube-apiserver.
// So the token has kube-apiserver's format, with two additional fields that kube-apiserver ignores.
// If the token had a different format, kube-apiserver would respond with 400, from which
// client-go's pager cannot recover.
type ContinueToken struct {
	Format string `json:"v"`
	// ResourceVersion is the version of the state from which all pages are served. It is
	// [Inconsistent] if that state is no longer cached. Then the next page is served from the current
	// state.
	ResourceVersion int64 `json:"rv"`
	// Start is the first key that the next page may contain. If the request is for one namespace,
	// Start does not contain the namespace.
	Start string `json:"start"`
	// Maker is weir.dev, which distinguishes a watch cache's token from kube-apiserver's.
	Maker string `json:"by"`
	// MinResourceVersion is the version of the earlier pages, if ResourceVersion is Inconsistent. The
	// next page must not be older than this version, even if another replica serves it.
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
// namespace is the namespace of the request, or "" for all namespaces.
func NewContinueToken(rv uint64, namespace, key string) ContinueToken {
	if namespace != "" {
		key = strings.TrimPrefix(key, namespace+"/")
	}
	return ContinueToken{ResourceVersion: int64(rv), Start: key}
}

// String returns the text of the token.
func (t ContinueToken) String() string {
	t.Format, t.Maker = continueFormat, continueMaker
	raw, _ := json.Marshal(t) // cannot fail: the fields are strings and numbers
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

// Key returns the key at which the next page starts. namespace is the namespace of the request, or
// "" for all namespaces.
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
