// Package resourceversion parses, formats and compares resourceVersions.
//
// A resourceVersion is a text. Kubernetes' own servers write increasing decimal integers, which
// clients may compare since KEP-5504. Other servers may write any text. If at least one of two
// texts is not an integer, their order is unknown.
package resourceversion
