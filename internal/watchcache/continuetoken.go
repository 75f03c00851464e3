package watchcache

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// continueToken says where the next page of a LIST begins, and in which state. It is one of
// kube-apiserver's with two more fields, which kube-apiserver ignores: a client may get its first
// page here and the next one there. kube-apiserver refuses a token in another format with 400, from
// which client-go's pager does not recover.
type continueToken struct {
	Version string `json:"v"`
	// ResourceVersion is the state that the pages are cut from. -1: that state is gone, continue
	// from the current one.
	ResourceVersion int64 `json:"rv"`
	// Start is the first key that the next page may hold, without the namespace of the request.
	Start string `json:"start"`
	// Maker tells a cache's token from one of kube-apiserver.
	Maker string `json:"by"`
	// MinResourceVersion is the state of the earlier pages, where that is gone. The continuation is
	// no older, even if another replica answers.
	MinResourceVersion int64 `json:"least,omitempty"`
}

const (
	continueVersion = "meta.k8s.io/v1"
	continueMaker   = "weir.dev"
	inconsistent    = -1
)

var errBadContinue = errors.New("continue key is not valid")

func (t continueToken) String() string {
	t.Version, t.Maker = continueVersion, continueMaker
	raw, _ := json.Marshal(t) // cannot fail: strings and numbers
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseContinueToken(s string) (continueToken, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return continueToken{}, errBadContinue
	}
	var t continueToken
	if err := json.Unmarshal(raw, &t); err != nil {
		return continueToken{}, errBadContinue
	}
	if t.Version != continueVersion || t.Maker != continueMaker || t.Start == "" || t.ResourceVersion < inconsistent || t.ResourceVersion == 0 || t.MinResourceVersion < 0 {
		return continueToken{}, errBadContinue
	}
	return t, nil
}

// startIn returns the part of a key that a token of a LIST in a namespace, or in all, has.
func startIn(namespace, key string) string {
	if namespace == "" {
		return key
	}
	return strings.TrimPrefix(key, namespace+"/")
}

// keyIn returns the key at which a token of a LIST in a namespace, or in all, starts.
func keyIn(namespace, start string) string {
	if namespace == "" {
		return start
	}
	return namespace + "/" + start
}

// ContinueVersion returns the oldest resourceVersion that the next page may be of. ok is false if
// text is no continue token of a cache, but another server's.
func ContinueVersion(text string) (rv uint64, ok bool) {
	t, err := parseContinueToken(text)
	return uint64(max(t.ResourceVersion, t.MinResourceVersion, 0)), err == nil
}
