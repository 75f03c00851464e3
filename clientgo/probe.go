package clientgo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
)

// NewestVersion lists one object and returns the list's resourceVersion. It captures nothing,
// because a captured watch may be open at the same time.
func (l *listWatch) NewestVersion(ctx context.Context, o metav1.ListOptions) (string, error) {
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	var after retryAfter
	var p probe
	rv, err := l.prober.NewestVersion(withValue(withValue(ctx, &p), &after), o, p.seen.Load, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		p.limit = o.Limit
		return callMarked(ctx, l, verbList, o, l.lw.ListWithContext)
	})
	return rv, after.restore(err)
}

// probe describes a List call that only requests the newest resourceVersion. The context of the
// call's requests contains the probe. With a limit of one object, a List that reads page after page
// would send one request per object. To prevent that, the transport removes the continue token from
// the first page.
type probe struct {
	limit int64       // the limit that was passed to List, in objects
	seen  atomic.Bool // the List has sent a request through a wrapped transport
}

// roundTrip sends a request. If the request has the probe's limit, roundTrip removes the continue
// token from the response. A List that sets another limit receives every page.
func (p *probe) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	p.seen.Store(true)
	resp, err := next.RoundTrip(req)
	_, ok := request.CollectionOf(req.URL.Path)
	if err == nil && ok && req.Method == http.MethodGet && request.QueryOf(req.URL).Get("limit") == strconv.FormatInt(p.limit, 10) {
		return withoutContinue(req, resp), nil
	}
	return resp, err
}

// maxPage is the largest page, in bytes, from which withoutContinue removes the continue token.
const maxPage = 2 << 20

// withoutContinue returns a page without its continue token. It returns the response unchanged if
// the response is not a page with a continue token, is compressed, or has more than maxPage bytes.
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
