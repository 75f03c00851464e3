package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/serve/secure"
)

// Certificate is the serving certificate. A TLS handshake reloads it after its files have changed.
// If the proxy has made the certificate, a handshake also renews it before it expires. Certificate
// has no goroutine. The package dynamiccertificates of k8s.io/apiserver has one, which would leak
// if a Server is created and never started. Certificate is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string   // empty: the certificate is only in memory
	hosts             []string // for a certificate that the proxy makes; nil: the user gave one
	log               *slog.Logger

	mu         sync.Mutex
	ca         []byte // PEM
	pair       *tls.Certificate
	checkedAt  time.Time
	modifiedAt time.Time // modification time of certFile
}

const (
	// The proxy also makes the CA that signs its certificates. Clients trust the CA, so they need no
	// new CA when the certificate is renewed.
	selfSignedValidity = 365 * 24 * time.Hour
	authorityValidity  = 10 * selfSignedValidity
	selfSignedName     = "weir-proxy"
	authorityName      = "weir-proxy-ca"
	// certificateCheckInterval is the minimum time between two checks of the files.
	certificateCheckInterval = 10 * time.Second

	certName, keyName = "weir-proxy.crt", "weir-proxy.key"
)

// ReadCertificate returns the certificate in the given files.
func ReadCertificate(certFile, keyFile string) (*Certificate, error) {
	return (&Certificate{certFile: certFile, keyFile: keyFile}).load()
}

// SelfSigned returns a certificate that the proxy makes for the loopback addresses, the listen
// address and the given hosts. It stores the certificate in the directory dir, or only in memory if
// dir is empty.
func SelfSigned(dir, address string, hosts []string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{hosts: certificateHosts(address, hosts), log: log}
	if dir != "" {
		c.certFile, c.keyFile = filepath.Join(dir, certName), filepath.Join(dir, keyName)
	}
	return c.load()
}

// load reads the certificate from its files. If the proxy makes the certificate, and the files are
// missing or their certificate is not usable (see usable), load makes one.
func (c *Certificate) load() (*Certificate, error) {
	if c.certFile != "" {
		if err := c.read(); err != nil && (c.hosts == nil || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("certificate: %w", err)
		}
	}
	if c.hosts != nil && !c.usable() {
		if err := c.renew(); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
	}
	return c, nil
}

// read reads the files. The caller holds the lock, or has the only reference to c.
func (c *Certificate) read() error {
	info, err := os.Stat(c.certFile)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(c.certFile)
	if err != nil {
		return err
	}
	if issuer := secure.AuthorityOf(&pair); issuer != nil && c.hosts != nil {
		c.ca = issuer.PEM()
	} else if c.ca == nil {
		c.ca = raw
	}
	c.pair, c.modifiedAt, c.checkedAt = &pair, info.ModTime(), time.Now()
	return nil
}

// renew makes another certificate and writes it to the files. The same CA signs it, unless that CA
// expires too soon. If writing fails, renew returns the error, but c already serves the new
// certificate. The caller holds the lock, or has the only reference to c.
func (c *Certificate) renew() (err error) {
	var by *secure.Authority
	if c.pair != nil {
		by = secure.AuthorityOf(c.pair)
	}
	if by == nil || time.Until(by.Ends()) < selfSignedValidity {
		if by, err = secure.NewAuthority(authorityName, authorityValidity); err != nil {
			return err
		}
	}
	pair, err := by.Issue(selfSignedName, selfSignedValidity, c.hosts...)
	if err != nil {
		return err
	}
	c.pair, c.ca = pair, by.PEM()
	return c.write()
}

func (c *Certificate) write() error {
	if c.certFile == "" {
		return nil
	}
	certPEM, keyPEM, err := secure.EncodePair(c.pair)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.certFile), 0o700)
	}
	if err == nil {
		err = os.WriteFile(c.keyFile, keyPEM, 0o600)
	}
	if err == nil {
		err = os.WriteFile(c.certFile, certPEM, 0o644)
	}
	return err
}

// get implements tls.Config.GetCertificate. If the changed files cannot be read, it returns the old
// certificate.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.certFile != "" && time.Since(c.checkedAt) > certificateCheckInterval {
		c.checkedAt = time.Now()
		if info, err := os.Stat(c.certFile); err == nil && !info.ModTime().Equal(c.modifiedAt) {
			_ = c.read()
		}
	}
	if c.hosts != nil && c.due() {
		if err := c.renew(); err != nil {
			c.log.Warn("cannot store the renewed serving certificate", "err", err)
		}
	}
	return c.pair, nil
}

// CAData returns the CA certificates, in PEM, with which clients verify the server.
func (c *Certificate) CAData() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ca
}

// due reports whether two thirds of the certificate's validity are over.
func (c *Certificate) due() bool {
	leaf := c.pair.Leaf
	return time.Until(leaf.NotAfter) < leaf.NotAfter.Sub(leaf.NotBefore)/3
}

// usable reports whether there is a certificate that is valid for all hosts and not due for
// renewal.
func (c *Certificate) usable() bool {
	invalid := func(host string) bool { return c.pair.Leaf.VerifyHostname(host) != nil }
	return c.pair != nil && !c.due() && !slices.ContainsFunc(c.hosts, invalid)
}

// certificateHosts returns the names and addresses for a self-signed certificate.
func certificateHosts(address string, more []string) []string {
	out := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			out = append(out, host)
		}
	}
	out = append(out, more...)
	slices.Sort(out)
	return slices.Compact(out)
}
