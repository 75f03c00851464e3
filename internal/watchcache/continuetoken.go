package watchcache

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// continueToken says where the next page of a LIST begins, and in which state.
type continueToken struct {
	// ResourceVersion is the state that the pages are cut from. -1: that state is gone, continue
	// from the current one.
	ResourceVersion int64 `json:"rv"`
	// MinResourceVersion is the state of the earlier pages, where that is gone. The continuation is
	// no older, even if another replica answers.
	MinResourceVersion int64 `json:"least,omitempty"`
	// Start is the first key that the next page may hold.
	Start   string `json:"start"`
	Version string `json:"v"`
}

const (
	continueVersion = "weir.dev/v1"
	inconsistent    = -1
)

var errBadContinue = errors.New("continue key is not valid")

func (t continueToken) String() string {
	t.Version = continueVersion
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
	if t.Version != continueVersion || t.Start == "" || t.ResourceVersion < inconsistent || t.ResourceVersion == 0 || t.MinResourceVersion < 0 {
		return continueToken{}, errBadContinue
	}
	return t, nil
}

// ContinueVersion returns the oldest resourceVersion that the next page may be of. ok is false if
// text is no continue token of a cache, but another server's.
func ContinueVersion(text string) (rv uint64, ok bool) {
	t, err := parseContinueToken(text)
	return uint64(max(t.ResourceVersion, t.MinResourceVersion, 0)), err == nil
}
