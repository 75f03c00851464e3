package proxyfuzz

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// side is the proxy or kube-apiserver. It is safe for concurrent use.
type side struct {
	host  *url.URL
	roots *x509.CertPool

	mu      sync.Mutex
	clients map[clientKey]*http.Client
}

// clientKey identifies a client, which has its own connections. Callers do not share connections,
// because kube-apiserver closes a connection of an unauthenticated caller.
type clientKey struct {
	caller string
	cert   *tls.Certificate
	http1  bool
}

// patience bounds one request. Servers wait three seconds for a resourceVersion, and watches end
// after one second. A longer request is cut off, to the proxy and to kube-apiserver.
const patience = 8 * time.Second

// maxRead bounds the bytes that are read of an answer.
const maxRead = 16 << 20

func newSide(t *testing.T, host string, ca []byte) *side {
	t.Helper()
	at, err := url.Parse(host)
	check.NoError(t, err)
	s := &side{host: at, roots: x509.NewCertPool(), clients: map[clientKey]*http.Client{}}
	s.roots.AppendCertsFromPEM(ca)
	t.Cleanup(func() {
		for _, c := range s.clients {
			c.CloseIdleConnections()
		}
	})
	return s
}

func (s *side) client(caller string, cert *tls.Certificate, http1 bool) *http.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := clientKey{caller, cert, http1}
	if c := s.clients[key]; c != nil {
		return c
	}
	cfg := &tls.Config{RootCAs: s.roots}
	if cert != nil { // send it even if the server requests certificates of other CAs
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(http1)
	protocols.SetHTTP2(!http1)
	c := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: cfg, Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.clients[key] = c
	return c
}

// send sends a request and reads the answer. A server may close an HTTP/1.1 connection just when a
// request is sent. net/http then repeats a request only if its method changes nothing. Therefore
// send itself repeats every HTTP/1.1 request once after EOF.
func (s *side) send(ctx context.Context, q *request, target string) *answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := s.try(ctx, q, target)
	if q.http1 && errors.Is(err, io.EOF) {
		resp, err = s.try(ctx, q, target)
	}
	if err != nil {
		return &answer{err: err}
	}
	defer resp.Body.Close()
	a := &answer{code: resp.StatusCode, header: resp.Header}
	if a.code != http.StatusSwitchingProtocols {
		a.body, a.cut = io.ReadAll(io.LimitReader(resp.Body, maxRead))
	}
	a.read()
	return a
}

func (s *side) try(ctx context.Context, q *request, target string) (*http.Response, error) {
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, s.host.String(), body)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(target, "?")
	req.URL.Opaque, req.URL.RawQuery = "//"+s.host.Host+path, query
	req.Header = q.header.Clone()
	return s.client(q.caller.name, q.caller.cert, q.http1).Do(req)
}
