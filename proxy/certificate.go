package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// certificate is what the server shows. One from files is read again when they change. Safe for concurrent use.
type certificate struct {
	certFile, keyFile string // empty: made for this process
	ca                []byte // PEM

	mu      sync.Mutex
	pair    *tls.Certificate
	looked  time.Time
	changed time.Time // modification time of certFile
}

const (
	selfSignedFor = 365 * 24 * time.Hour
	// lookEvery is how often the files are looked at, at most.
	lookEvery = 10 * time.Second

	certName, keyName = "weir-proxy.crt", "weir-proxy.key"
)

func newCertificate(o *Options) (*certificate, error) {
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return nil, fmt.Errorf("%w: a certificate needs its key, and a key its certificate", ErrOptions)
	case o.CertFile != "":
		return readCertificate(o.CertFile, o.KeyFile)
	case o.CertDir != "":
		certFile, keyFile := filepath.Join(o.CertDir, certName), filepath.Join(o.CertDir, keyName)
		c, err := readCertificate(certFile, keyFile)
		if err == nil && c.good(o) {
			return c, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := writeCertificate(o, certFile, keyFile); err != nil {
			return nil, err
		}
		return readCertificate(certFile, keyFile)
	}
	certPEM, keyPEM, err := selfSigned(o)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &certificate{ca: certPEM, pair: &pair}, nil
}

func readCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	return c, nil
}

// read reads the files. The lock is held, or nobody else knows c.
func (c *certificate) read() error {
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
	c.pair, c.changed, c.looked = &pair, info.ModTime(), time.Now()
	return nil
}

// get is tls.Config.GetCertificate. Files that changed and cannot be read leave the certificate as it was.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.certFile != "" && time.Since(c.looked) > lookEvery {
		c.looked = time.Now()
		if info, err := os.Stat(c.certFile); err == nil && !info.ModTime().Equal(c.changed) {
			_ = c.read()
		}
	}
	return c.pair, nil
}

// good says whether a certificate that was made before still does.
func (c *certificate) good(o *Options) bool {
	leaf := c.pair.Leaf
	if time.Until(leaf.NotAfter) < selfSignedFor/12 {
		return false
	}
	for _, host := range hosts(o) {
		if leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// hosts are what a certificate of our own is good for.
func hosts(o *Options) []string {
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

// selfSigned makes a certificate that signs itself and no other.
func selfSigned(o *Options) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "weir-proxy"},
		NotBefore:    time.Now().Add(-5 * time.Minute), // clocks differ
		NotAfter:     time.Now().Add(selfSignedFor),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:         true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	for _, host := range hosts(o) {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("proxy: certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

func writeCertificate(o *Options, certFile, keyFile string) error {
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
