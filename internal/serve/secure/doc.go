// Package secure protects what servers of this process listen on: by serving certificates that
// a new CA signs, and, where callers have no credentials, against web
// pages.
package secure
