package clientgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
	asks := withValue(withValue(ctx, &p), &after)
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
	switch n := int64(meta.LenList(object)); {
	case listMeta.Continue != "", n <= o.Limit && p.seen.Load(): // p ends a List after its first page
		l.pagesItself.Store(false)
	case n > o.Limit:
		l.pagesItself.Store(true)
	}
	return listMeta.ResourceVersion, nil
}

// probe is a List that only determines the resourceVersion. The context of the List's requests
// carries it. A List that reads page after page itself would send one request per object, so the
// transport makes the first page the last one.
type probe struct {
	limit int64       // the number of objects per page that the List was asked for
	seen  atomic.Bool // it has sent a request, so its transport is wrapped
}

// roundTrip sends a request, and makes the page that it receives the last one. A List with its own
// limit receives every page.
func (p *probe) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	p.seen.Store(true)
	resp, err := next.RoundTrip(req)
	_, ok := request.CollectionOf(req.URL.Path)
	if err == nil && ok && req.Method == http.MethodGet && request.QueryOf(req.URL).Get("limit") == strconv.FormatInt(p.limit, 10) {
		return withoutContinue(req, resp), nil
	}
	return resp, err
}

// maxPage limits the bytes of a page that are read ahead.
const maxPage = 2 << 20

// withoutContinue returns a page without its continue token, or the response itself if it is no
// page with a token, or has more than maxPage bytes.
func withoutContinue(req *http.Request, resp *http.Response) *http.Response {
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" {
		return resp
	}
	list := wire.NewListReader(bytes.NewReader(readAhead(req.Context(), resp, maxPage)), enc, wire.Limits{})
	var items [][]byte
	for err == nil || errors.As(err, new(*wire.ItemError)) {
		var item []byte
		if item, err = list.Next(); err == nil {
			items = append(items, bytes.Clone(item))
		}
	}
	if err != io.EOF || list.TypeMeta().Kind == "" || list.Meta().Continue == "" {
		return resp
	}
	page, err := stubResponse(req, resp, verbList, enc, list.TypeMeta(), wire.ListMeta{ResourceVersion: list.Meta().ResourceVersion}, items...)
	if err != nil {
		return resp
	}
	return page
}
