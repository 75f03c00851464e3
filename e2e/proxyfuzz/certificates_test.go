package proxyfuzz

import (
	"crypto/x509"
	"time"
)

// expired changes a certificate so that it expired an hour ago.
func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(-time.Hour)
}

// early changes a certificate so that it becomes valid in an hour.
func early(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(24*time.Hour)
}

// forServers changes a certificate so that it is not for clients.
func forServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
