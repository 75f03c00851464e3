package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/selfsigned"
)

// servingCertificate is the certificate of the server. It is reloaded when its files change, by the
// handshake that finds them changed: unlike k8s.io/apiserver's dynamiccertificates it has no
// goroutine, which a Server that is made and never started would leave behind. It is safe for
// concurrent use.
type servingCertificate struct {
	certFile, keyFile string // empty: kept in memory only
	ca                []byte // PEM

	mu         sync.Mutex
	pair       *tls.Certificate
	checkedAt  time.Time
	modifiedAt time.Time // modification time of certFile
}

const (
	selfSignedValidity = 365 * 24 * time.Hour
	// certificateCheckInterval is the least time between two checks of the files.
	certificateCheckInterval = 10 * time.Second

	certName, keyName = "weir-proxy.crt", "weir-proxy.key"
)

func newServingCertificate(o *Options) (*servingCertificate, error) {
	switch {
	case o.CertFile != "":
		return readServingCertificate(o.CertFile, o.KeyFile)
	case o.CertDir != "":
		certFile, keyFile := filepath.Join(o.CertDir, certName), filepath.Join(o.CertDir, keyName)
		c, err := readServingCertificate(certFile, keyFile)
		if err == nil && c.usable(o) {
			return c, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := writeSelfSigned(o, certFile, keyFile); err != nil {
			return nil, err
		}
		return readServingCertificate(certFile, keyFile)
	}
	certPEM, keyPEM, err := selfSigned(o)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &servingCertificate{ca: certPEM, pair: &pair}, nil
}

func readServingCertificate(certFile, keyFile string) (*servingCertificate, error) {
	c := &servingCertificate{certFile: certFile, keyFile: keyFile}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	return c, nil
}

// read reads the files. The caller holds the lock, or has the only reference.
func (c *servingCertificate) read() error {
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
	if c.ca == nil {
		c.ca = raw
	}
	c.pair, c.modifiedAt, c.checkedAt = &pair, info.ModTime(), time.Now()
	return nil
}

// get implements tls.Config.GetCertificate. If changed files cannot be read, the old certificate
// stays.
func (c *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.certFile != "" && time.Since(c.checkedAt) > certificateCheckInterval {
		c.checkedAt = time.Now()
		if info, err := os.Stat(c.certFile); err == nil && !info.ModTime().Equal(c.modifiedAt) {
			_ = c.read()
		}
	}
	return c.pair, nil
}

// usable reports whether an existing self-signed certificate is valid for long enough and for all
// hosts.
func (c *servingCertificate) usable(o *Options) bool {
	leaf := c.pair.Leaf
	if time.Until(leaf.NotAfter) < selfSignedValidity/12 {
		return false
	}
	for _, host := range certificateHosts(o) {
		if leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// certificateHosts returns the hosts of a self-signed certificate.
func certificateHosts(o *Options) []string {
	out := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			out = append(out, host)
		}
	}
	out = append(out, o.Hosts...)
	slices.Sort(out)
	return slices.Compact(out)
}

// selfSigned creates a self-signed certificate.
func selfSigned(o *Options) (certPEM, keyPEM []byte, err error) {
	certPEM, keyPEM, err = selfsigned.New("weir-proxy", selfSignedValidity, certificateHosts(o)...)
	if err != nil {
		return nil, nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}

func writeSelfSigned(o *Options, certFile, keyFile string) error {
	certPEM, keyPEM, err := selfSigned(o)
	if err != nil {
		return err
	}
	err = os.MkdirAll(o.CertDir, 0o700)
	if err == nil {
		err = os.WriteFile(keyFile, keyPEM, 0o600)
	}
	if err == nil {
		err = os.WriteFile(certFile, certPEM, 0o644)
	}
	if err != nil {
		return fmt.Errorf("proxy: certificate: %w", err)
	}
	return nil
}
