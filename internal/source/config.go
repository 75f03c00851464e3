package source

import (
	"bytes"
	"maps"
	"slices"

	"k8s.io/client-go/rest"
)

// CopyConfig returns a copy of cfg that shares nothing with it that a caller would change, so that
// what happens to cfg afterwards does not reach requests. rest.CopyConfig shares slices, maps and
// the credential plugin's configuration. Values behind interfaces and functions are shared.
func CopyConfig(cfg *rest.Config) *rest.Config {
	c := *cfg
	if c.GroupVersion != nil {
		gv := *c.GroupVersion
		c.GroupVersion = &gv
	}
	c.Impersonate.Groups = slices.Clone(c.Impersonate.Groups)
	c.Impersonate.Extra = maps.Clone(c.Impersonate.Extra)
	for key, values := range c.Impersonate.Extra {
		c.Impersonate.Extra[key] = slices.Clone(values)
	}
	c.AuthProvider = c.AuthProvider.DeepCopy()
	c.ExecProvider = c.ExecProvider.DeepCopy()
	c.CertData, c.KeyData, c.CAData = bytes.Clone(c.CertData), bytes.Clone(c.KeyData), bytes.Clone(c.CAData)
	c.NextProtos = slices.Clone(c.NextProtos)
	return &c
}
