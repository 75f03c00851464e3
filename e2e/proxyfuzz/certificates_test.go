package proxyfuzz

import (
	"crypto/x509"
	"time"
)

// expired makes a certificate one that was good until an hour ago.
func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(-time.Hour)
}

// early makes a certificate one that will be good in an hour.
func early(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(24*time.Hour)
}

// forServers makes a certificate one that is not for clients.
func forServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
