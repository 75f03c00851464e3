package embedded

import (
	"crypto/tls"
	"time"

	"github.com/weirproject/weir/internal/serve/secure"
)

// loopback is where the server listens.
const loopback = "127.0.0.1"

// certificateAge is the validity of a certificate, longer than any measurement.
const certificateAge = 30 * 24 * time.Hour

// selfSigned returns the configuration of a server with a new certificate for this process, and its
// CA as PEM.
func selfSigned() (cfg *tls.Config, ca []byte, err error) {
	authority, err := secure.NewAuthority("weir-ca", certificateAge)
	if err != nil {
		return nil, nil, err
	}
	pair, err := authority.Issue("weir", certificateAge, loopback)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{*pair}}, authority.PEM(), nil
}
