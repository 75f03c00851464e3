// Package secure protects the listeners of this process: by serving certificates that a new CA
// signs, and, for listeners whose clients have no credentials, against web pages.
package secure
