// Package resourceversion parses, formats and compares resourceVersions.
//
// For a client, a resourceVersion is a text. Kubernetes' own servers write increasing decimal
// integers, and since KEP-5504 clients may compare them. Other servers may write any text. Two
// texts have no known order unless both are integers.
package resourceversion
