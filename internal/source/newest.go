package source

import (
	"context"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewestOptions returns the parameters of the LIST that NewestVersion asks with.
func NewestOptions(atLeast string) ListOptions {
	o := ListOptions{Limit: 1, ResourceVersion: atLeast}
	if atLeast != "" {
		o.Match = metav1.ResourceVersionMatchNotOlderThan
	}
	return o
}

// ReadVersion returns the resourceVersion of a list, and closes it. It reads the list to its end
// where the resourceVersion stands there. Nothing of it is held, however long it is.
func ReadVersion(l *List) (string, error) {
	defer l.Close()
	for {
		_, err := l.Next()
		if rv := l.Meta().ResourceVersion; rv != "" || errors.Is(err, io.EOF) {
			return rv, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// NewestVersion asks for the newest resourceVersion; see Source.
func (s *REST) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	l, err := s.List(ctx, NewestOptions(atLeast))
	if err != nil {
		return "", err
	}
	return ReadVersion(l)
}
