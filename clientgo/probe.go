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

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// probePage is the limit for a List that seems to read page after page itself. It is the limit of
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
	// Only one call that never returns is abandoned, not one per probe.
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
			l.pagesItself.Store(true) // it may have been reading pages
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

// probe is a List that only determines the resourceVersion. The context of the List's requests
// carries it. A List that reads page after page itself would send one request per object, so the
// transport makes up the page after the first: it is empty, and the last.
type probe struct {
	limit int64       // the number of objects per page that the List was asked for
	seen  atomic.Bool // it has sent a request, so its transport is wrapped
	first atomic.Pointer[firstPage]
}

// withContext returns a context that carries the probe.
func (p *probe) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}

// roundTrip answers a request for a page after the first, if it can, and sends all others. A List
// with its own limit receives every page.
func (p *probe) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	p.seen.Store(true)
	query := request.QueryOf(req.URL)
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

// firstPage has the part of a first page that its caller has read, if that is at most maxFirstPage
// bytes.
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

// lastPage returns an empty page with the first page's resourceVersion for a request with the first
// page's continue token. It returns false if the token is of another page, or the first page is
// unknown.
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
