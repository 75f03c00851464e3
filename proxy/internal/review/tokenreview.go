package review

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// review asks the upstream for the user of a token. It first waits for a seat, which is the right to
// make one review, unless opts.uncached is set.
func (a *Authenticator) review(r *http.Request, id [sha256.Size]byte, opts Options) (user.Info, Decision) {
	tokens := a.uncachedTokens
	if !opts.uncached {
		tokens = a.tokens
		f := seats.Flow{Level: seats.NewTokens, Caller: conn.Source(r.RemoteAddr), Token: seats.TokenKey(id)}
		if who, known := a.Known(id); known {
			f = seats.ReviewFlow(who)
		}
		seated := a.seats.Acquire(r.Context(), f)
		if seated {
			defer a.seats.Release(f)
		}
		switch _, answered := a.answerWithin(id, opts.Grace); {
		case answered && a.breaker.open():
			return nil, Unreachable
		case !seated:
			return nil, Overloaded
		}
	}
	begun := a.breaker.begin()
	resp, ok, err := tokens.AuthenticateRequest(utilnet.CloneRequest(r))
	switch {
	case err != nil && !saysNo(err):
		return nil, begun.classify(r.Context(), err)
	case err == nil && ok:
		a.Remember(resp.User, id)
		return resp.User, Allow
	}
	a.tokenAnswers.remove(id)
	return nil, Deny
}

// saysNo reports whether err says that the upstream rejects the token. The library returns the
// upstream's reason for the rejection as an error.
func saysNo(err error) bool { return !HasStatus(err) && !isNetworkError(err) && !isCutOff(err) }

// answerWithin returns the cached user of a token, if the age of the answer is less than the given
// time (within).
func (a *Authenticator) answerWithin(id [sha256.Size]byte, within time.Duration) (user.Info, bool) {
	last, ok := a.tokenAnswers.get(id)
	if !ok || time.Since(last.at) >= within {
		return nil, false
	}
	return last.user, true
}

const webSocketToken = "base64url.bearer.authorization.k8s.io."

// TokenID returns a digest of the request's token, or zero if there is none. Like kube-apiserver,
// it finds a token in two places: a bearer Authorization header, and a protocol of a WebSocket
// request.
func TokenID(r *http.Request) (id [sha256.Size]byte) {
	auth, protocols := strings.TrimSpace(r.Header.Get("Authorization")), ""
	if words := strings.SplitN(auth, " ", 3); len(words) < 2 || strings.ToLower(words[0]) != "bearer" || words[1] == "" {
		auth = ""
	}
	if all := strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","); strings.Contains(all, webSocketToken) && wsstream.IsWebSocketRequest(r) {
		protocols = all
	}
	if auth == "" && protocols == "" {
		return id
	}
	return sha256.Sum256([]byte(auth + "\n" + protocols)) // a header contains no newline
}
