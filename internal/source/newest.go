package source

import (
	"context"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/wire"
)

// NewestOptions returns the parameters of the LIST that NewestVersion makes. atLeast may be "".
func NewestOptions(atLeast string) ListOptions {
	o := ListOptions{Limit: 1, ResourceVersion: atLeast}
	if atLeast != "" {
		o.Match = metav1.ResourceVersionMatchNotOlderThan
	}
	return o
}

// readVersion returns the resourceVersion of a list and closes the list. It skips items up to where
// the resourceVersion stands, and holds none of them.
func readVersion(l *listBody) (string, error) {
	defer l.Close()
	for {
		_, err := l.Next()
		if rv := l.Meta().ResourceVersion; rv != "" || errors.Is(err, io.EOF) {
			l.stream.readRest()
			return rv, nil
		}
		if _, ofItem := errors.AsType[*wire.ItemError](err); err != nil && !ofItem {
			return "", err
		}
	}
}

// NewestVersion returns the server's newest resourceVersion; see Source.
func (s *REST) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	l, err := s.list(ctx, NewestOptions(atLeast))
	if err != nil {
		return "", err
	}
	return readVersion(l)
}
