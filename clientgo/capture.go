package clientgo

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/wire"
)

// verb is what a capture waits for.
type verb uint8

const (
	verbList verb = iota
	verbWatch
)

type captureKey struct{}

// capture takes the answer to one LIST or WATCH away from its caller. It is in the request's context.
type capture struct {
	verb    verb
	context context.Context // what the answer's body lives as long as
	matcher responseMatcher // a copy: the caller may leave requests behind

	mu       sync.Mutex
	answer   *http.Response // the captured one
	resource schema.GroupVersionResource
	release  context.CancelCauseFunc
	answers  int  // to requests of the verb
	stubbed  int  // of these, those that the caller did not get
	foreign  bool // one was not the informer's own: from then on the caller gets them all
	closed   bool
}

// with puts the capture into a context.
func (c *capture) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// admit decides whether an answer is to be captured: the informer's own are, until the caller has got one that is not.
func (c *capture) admit(isOwn bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	c.foreign = c.foreign || !isOwn
	if c.foreign {
		return false
	}
	c.stubbed++
	return true
}

// take keeps an answer. It reports false when there is one already, or nobody wants it any more.
func (c *capture) keep(resp *http.Response, resource schema.GroupVersionResource, release context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.answers > 1 {
		return false
	}
	c.answer, c.resource, c.release = resp, resource, release
	return true
}

// captured is what a call of a ListerWatcher has come to.
type captured struct {
	answer   *http.Response // nil: none, or not all that the caller asked for, since it made several requests
	resource schema.GroupVersionResource
	whole    bool // the caller got every answer: what it returns is what it made of them
}

// end stops capturing and returns what was captured.
func (c *capture) end() captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.answers > 1 {
		c.drop()
	}
	return captured{c.answer, c.resource, c.stubbed == 0}
}

// discard lets the captured answer go.
func (c *capture) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
}

// drop lets the captured answer go. The lock is held.
func (c *capture) drop() {
	if c.answer != nil {
		c.release(errDropped)
		_ = c.answer.Body.Close()
		c.answer = nil
	}
}

var errDropped = errors.New("the answer is not wanted")

// wants returns the resource of a request, if the capture is for requests such as this one.
func (c *capture) wants(req *http.Request) (schema.GroupVersionResource, bool) {
	resource, ok := resourceOf(req)
	if !ok || req.Method != http.MethodGet {
		return resource, false
	}
	watch, _ := strconv.ParseBool(req.URL.Query().Get("watch"))
	return resource, watch == (c.verb == verbWatch)
}

// look reports whether an answer is the informer's own, and of a list the kind. It reads the head of the body of a list, puts
// it back, and leaves the body decompressed. It blocks until the head has come or the context ends, which is then the error.
func (c *capture) inspect(ctx context.Context, resource schema.GroupVersionResource, resp *http.Response, enc wire.Encoding) (wire.TypeMeta, bool, error) {
	if c.verb == verbWatch {
		return wire.TypeMeta{}, c.matcher.matchWatch(resource), nil
	}
	body := resp.Body // what does not end with its request's context ends here, whatever resp has by then
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	if err := decompress(resp); err != nil {
		return wire.TypeMeta{}, false, err
	}
	head, whole, err := readListTypeMeta(resp.Body, enc)
	if ctx.Err() != nil {
		return wire.TypeMeta{}, false, context.Cause(ctx)
	}
	if err != nil {
		return wire.TypeMeta{}, false, err
	}
	resp.Body = readCloser{whole, resp.Body}
	kind, isOwn := c.matcher.matchList(resource, head)
	return kind, isOwn, nil
}
