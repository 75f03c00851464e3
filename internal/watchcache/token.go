package watchcache

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// token is what a continue token says: where the next page begins, and in which state.
type token struct {
	// ResourceVersion of the state that the pages are cut from. -1: whatever is current, because that state is gone.
	ResourceVersion int64 `json:"rv"`
	// Least is the resourceVersion of the pages before, where that state is gone: what goes on from them is no older, even
	// if another replica answers.
	Least int64 `json:"least,omitempty"`
	// Start is the first key that the next page may hold.
	Start   string `json:"start"`
	Version string `json:"v"`
}

const (
	tokenVersion = "weir.dev/v1"
	inconsistent = -1
)

var errBadToken = errors.New("continue key is not valid")

func (t token) String() string {
	t.Version = tokenVersion
	raw, _ := json.Marshal(t) // strings and a number: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseToken(s string) (token, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return token{}, errBadToken
	}
	var t token
	if err := json.Unmarshal(raw, &t); err != nil {
		return token{}, errBadToken
	}
	if t.Version != tokenVersion || t.Start == "" || t.ResourceVersion < inconsistent || t.ResourceVersion == 0 || t.Least < 0 {
		return token{}, errBadToken
	}
	return t, nil
}
