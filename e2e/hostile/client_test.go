package hostile

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

// requestTimeout bounds a request of a well-behaved client.
const requestTimeout = 30 * time.Second

// client is a well-behaved client of a victim.
type client struct {
	base      string
	token     string
	transport *http.Transport
}

// newClient returns a client that connects from an address of loopback. A token "" sends none.
func newClient(v *victim, from, token string) *client {
	return newClientOf("https://"+v.address, v, from, token)
}

// newHealthClient returns a client of --health-listen.
func newHealthClient(v *victim, from string) *client {
	return newClientOf("http://"+v.health, v, from, "")
}

func newClientOf(base string, v *victim, from, token string) *client {
	return &client{base: base, token: token, transport: &http.Transport{
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
		TLSClientConfig:   &tls.Config{RootCAs: v.roots, NextProtos: []string{"h2", "http/1.1"}},
		ForceAttemptHTTP2: true,
	}}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// get returns the body of a 200 that was received completely. The error is a statusError if the
// status is another.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.kubernetes.protobuf, application/json, */*")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = statusError(resp.StatusCode)
	}
	return body, err
}
