// Package secure protects the listeners of this process. It creates serving certificates that a new
// CA signs. If a listener requires no credentials, the package can also refuse requests that web
// pages send to it.
package secure
