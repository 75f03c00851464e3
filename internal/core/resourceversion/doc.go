// Package resourceversion parses, formats and compares resourceVersions.
//
// To a client a resourceVersion is a text. Kubernetes' own servers write decimal integers that only
// grow, and since KEP-5504 clients may compare those. Other servers write any text: the order of
// texts that are not integers is unknown.
package resourceversion
