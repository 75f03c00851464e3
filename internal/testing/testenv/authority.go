package testenv

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/serve/secure"
)

// Authority is a certificate authority that signs client certificates. It is immutable.
type Authority struct {
	// File is the path of the PEM file that contains the authority's certificate.
	File string

	ca *secure.Authority
}

// NewAuthority creates an authority and writes its certificate to file, as PEM. The certificate is
// valid for two days.
func NewAuthority(file string) (*Authority, error) {
	ca, err := secure.NewAuthority(file, 48*time.Hour)
	if err != nil {
		return nil, err
	}
	return &Authority{file, ca}, os.WriteFile(file, ca.PEM(), 0o600)
}

// Issue creates a client certificate for the user name in the given groups. It is valid for a day.
// Issue ends the test if it fails.
func (a *Authority) Issue(t *testing.T, name string, groups ...string) *tls.Certificate {
	t.Helper()
	return a.IssueWith(t, func(*x509.Certificate) {}, name, groups...)
}

// IssueWith does what Issue does, but calls change with the template of the certificate before it
// signs the certificate.
func (a *Authority) IssueWith(t *testing.T, change func(*x509.Certificate), name string, groups ...string) *tls.Certificate {
	t.Helper()
	cert, err := a.ca.IssueWith(name, 24*time.Hour, func(template *x509.Certificate) {
		template.Subject.Organization, template.ExtKeyUsage = groups, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		change(template)
	})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
