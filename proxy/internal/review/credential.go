package review

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
)

// credential is the part of a request that identifies its caller to the upstream.
type credential struct {
	id    [sha256.Size]byte // digest of the token or the certificate
	token bool
	r     *http.Request // contains only what identifies the caller; nil in tests
}

// tokenHeaders are the headers in which kube-apiserver looks for a token.
var tokenHeaders = []string{"Authorization", "Sec-Websocket-Protocol", "Connection", "Upgrade"}

// credentialOf returns the credential of a request. A review of the credential may outlast the
// request, because other watches of the caller share it. Of the headers, the credential therefore
// contains only those that identify the caller. It contains nothing that belongs to the connection,
// such as the body and the context.
func (a *Authenticator) credentialOf(r *http.Request) credential {
	b := credential{r: &http.Request{
		Method: r.Method, URL: &url.URL{}, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Header: http.Header{}, RemoteAddr: r.RemoteAddr,
	}}
	keeps := func(name string) bool { return slices.Contains(tokenHeaders, name) }
	if verified, ok := r.Context().Value(identityKey{}).(*identity); ok && verified.caller != nil {
		b.id, b.r.TLS = sha256.Sum256(r.TLS.PeerCertificates[0].Raw), r.TLS
		keeps = a.cas.Load().namesCaller
	} else {
		b.id, b.token = TokenID(r), true
	}
	for name, values := range r.Header {
		if keeps(name) {
			b.r.Header[name] = values
		}
	}
	return b
}
