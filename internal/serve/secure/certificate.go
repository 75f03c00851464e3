package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Authority is a CA. Its certificates use the CA's own key, so that a server stores only one key. A
// client that trusts the CA also trusts the certificates that the CA issues later.
type Authority struct {
	ca  *x509.Certificate
	key crypto.Signer
}

// NewAuthority creates a CA, which signs no other CA. name is its common name. Its key is an
// elliptic-curve key, because creating an RSA key would take as long as starting a server.
func NewAuthority(name string, validity time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := newTemplate(name, validity)
	template.KeyUsage |= x509.KeyUsageCertSign
	template.IsCA, template.MaxPathLenZero = true, true
	ca, err := sign(template, template, key)
	if err != nil {
		return nil, err
	}
	return &Authority{ca, key}, nil
}

// sign returns a certificate for the public key of key, and signs the certificate with key.
func sign(template, by *x509.Certificate, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// AuthorityOf returns the authority that issued pair, or nil if Issue did not create pair.
func AuthorityOf(pair *tls.Certificate) *Authority {
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || len(pair.Certificate) != 2 {
		return nil
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil || !ca.IsCA || ca.CheckSignature(pair.Leaf.SignatureAlgorithm, pair.Leaf.RawTBSCertificate, pair.Leaf.Signature) != nil {
		return nil
	}
	if public, ok := key.Public().(*ecdsa.PublicKey); !ok || !public.Equal(ca.PublicKey) {
		return nil
	}
	return &Authority{ca, key}
}

// Ends returns the end of the CA's validity.
func (a *Authority) Ends() time.Time { return a.ca.NotAfter }

// PEM returns the CA's certificate.
func (a *Authority) PEM() []byte { return encode(a.ca.Raw) }

// Issue creates a serving certificate for the hosts. The result also contains the CA's certificate.
// name is the common name, which must differ from the CA's.
func (a *Authority) Issue(name string, validity time.Duration, hosts ...string) (*tls.Certificate, error) {
	return a.IssueWith(name, validity, func(template *x509.Certificate) {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
	})
}

// IssueWith creates a certificate like Issue, but change completes the template that the CA signs.
func (a *Authority) IssueWith(name string, validity time.Duration, change func(template *x509.Certificate)) (*tls.Certificate, error) {
	template := newTemplate(name, validity)
	change(template)
	leaf, err := sign(template, a.ca, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, a.ca.Raw}, PrivateKey: a.key, Leaf: leaf}, nil
}

// EncodePair returns the result of Issue as PEM.
func EncodePair(pair *tls.Certificate) (certPEM, keyPEM []byte, err error) {
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(pair.PrivateKey); err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	for _, der := range pair.Certificate {
		certPEM = append(certPEM, encode(der)...)
	}
	return certPEM, keyPEM, nil
}

// newTemplate returns the template of a certificate, without a serial number: package x509 chooses
// a random one.
func newTemplate(name string, validity time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-5 * time.Minute), // for clients whose clocks are slow
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
