package clientgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// probePage is the limit of a List that seems to read page after page itself. It is that of
// client-go's pager.
const probePage = 500

// NewestVersion lists one object and returns the list's resourceVersion. It captures nothing,
// because it runs while a watch may be open.
func (l *listWatch) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	o := source.NewestOptions(atLeast)
	if l.pagesItself.Load() {
		o.Limit = probePage
	}
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	// Only one call that never returns is left behind, not one for each probe.
	if !l.asking.CompareAndSwap(false, true) {
		return "", fmt.Errorf("asked for the newest version before: %w", errNotReturned)
	}
	var after retryAfter
	p := probe{limit: o.Limit}
	asks := after.withContext(p.withContext(ctx))
	object, err := callWithContext(asks, func() (runtime.Object, error) {
		defer l.asking.Store(false)
		return l.lw.ListWithContext(asks, metav1.ListOptions{
			ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.Match, Limit: o.Limit,
		})
	}, func(runtime.Object) {})
	if err = after.restore(err); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !p.seen.Load() {
			l.pagesItself.Store(true) // perhaps it was at it
		}
		return "", err
	}
	listMeta, err := listMetaOf(object)
	if err != nil {
		return "", err
	}
	switch {
	case listMeta.Continue != "":
		l.pagesItself.Store(false)
	case int64(meta.LenList(object)) > o.Limit:
		l.pagesItself.Store(true)
	}
	return listMeta.ResourceVersion, nil
}

type probeKey struct{}

// probe is a List of which only the resourceVersion is wanted. It travels in the context of the
// List's requests. A List that reads page after page itself would send as many as there are
// objects, so the page after the first is made up: it is empty, and the last.
type probe struct {
	limit int64       // the List was asked for pages of that many objects
	seen  atomic.Bool // it has sent a request: its transport is wrapped
	first atomic.Pointer[firstPage]
}

// withContext returns a context that carries the probe.
func (p *probe) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}

// roundTrip answers a request for a page after the first, if it can. It sends all others. A List
// with a limit of its own gets every page.
func (p *probe) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	p.seen.Store(true)
	query := req.URL.Query()
	if _, ok := resourceOf(req); !ok || req.Method != http.MethodGet || query.Get("limit") != strconv.FormatInt(p.limit, 10) {
		return next.RoundTrip(req)
	}
	if token := query.Get("continue"); token != "" {
		if last, ok := p.first.Load().lastPage(req, token); ok {
			return last, nil
		}
		return next.RoundTrip(req)
	}
	resp, err := next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Encoding") == "" {
		first := &firstPage{head: *resp}
		first.head.Body = nil
		resp.Body = readCloser{io.TeeReader(resp.Body, first), resp.Body}
		p.first.Store(first)
	}
	return resp, err
}

// firstPage has what a caller has read of a first page, if that is at most maxFirstPage bytes.
type firstPage struct {
	head http.Response // without the body

	mu       sync.Mutex
	body     bytes.Buffer
	tooLarge bool
}

const maxFirstPage = 2 << 20

func (f *firstPage) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tooLarge = f.tooLarge || f.body.Len()+len(p) > maxFirstPage; f.tooLarge {
		f.body = bytes.Buffer{}
		return len(p), nil
	}
	return f.body.Write(p)
}

// lastPage returns an empty page, with the resourceVersion of the first one, for a request with the
// first one's continue token. It returns false if the token is another's, or the page not known.
func (f *firstPage) lastPage(req *http.Request, token string) (*http.Response, bool) {
	if f == nil {
		return nil, false
	}
	enc, err := wire.EncodingOf(f.head.Header.Get("Content-Type"))
	if err != nil {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := wire.NewListReader(bytes.NewReader(f.body.Bytes()), enc, wire.Limits{})
	for err == nil || errors.As(err, new(*wire.ItemError)) {
		_, err = list.Next()
	}
	if !errors.Is(err, io.EOF) || list.TypeMeta().Kind == "" || list.Meta().Continue != token {
		return nil, false
	}
	last, err := stubResponse(req, &f.head, verbList, enc, list.TypeMeta(), wire.ListMeta{ResourceVersion: list.Meta().ResourceVersion})
	return last, err == nil
}
