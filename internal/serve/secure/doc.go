// Package secure protects the listeners of this process. It creates serving certificates that a new
// CA signs. It also protects listeners whose clients have no credentials against web pages.
package secure
