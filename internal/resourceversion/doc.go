// Package resourceversion parses, formats and compares resourceVersions.
//
// To a client a resourceVersion is a text. Kubernetes' own servers write decimal integers that only
// grow, and since KEP-5504 clients may compare those. Other servers write anything: nothing is
// known about the order of a text that is no integer.
package resourceversion
