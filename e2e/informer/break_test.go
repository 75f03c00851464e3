package informer

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestServerKilledMidList kills the server during the initial LIST, after 16 KiB of the body, and
// starts it again. It checks that the informer reports ErrUnreachable, and then syncs.
func TestServerKilledMidList(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := begin(t)
			client := admin(t)
			hook := &bodyHook{after: 16 << 10, do: shared.KillAPIServer}
			cfg := shared.Config()
			cfg.Wrap(hook.wrap)
			opts := weir.Options{}
			opts.ListWatch.Mode = mode
			failed := make(chan error, 1)
			opts.OnStatus = func(s weir.Status) {
				if s.Err != nil {
					select {
					case failed <- s.Err:
					default:
					}
				}
			}
			inf := run[*corev1.Pod](t, ctx, cfg, opts)
			seen := newView(t, inf)
			select {
			case err := <-failed:
				check.ErrorIs(t, err, weir.ErrUnreachable, "a killed server shows as")
			case <-ctx.Done():
				t.Fatal("the broken list was not noticed")
			}
			check.NoError(t, shared.StartAPIServer(ctx))
			check.NoError(t, inf.WaitForSync(ctx))
			equal(t, ctx, client, inf)
			seen.check(ctx)
		})
	}
}

// TestServerKilledMidWatch kills the server during a WATCH and starts it again. It checks that the
// informer reports ErrUnreachable, and then has the same objects as the server.
func TestServerKilledMidWatch(t *testing.T) {
	ctx := begin(t)
	client := admin(t)
	inf := run[*corev1.Pod](t, ctx, shared.Config(), weir.Options{})
	seen := newView(t, inf)
	check.NoError(t, inf.WaitForSync(ctx))
	writes := startChurn(t, ctx, client, 4)
	testenv.Eventually(t, ctx, "there are 200 writes", func() bool { return writes.writes.Load() > 200 })
	shared.KillAPIServer()
	check.ErrorIs(t, inf.WaitForErr(ctx), weir.ErrUnreachable, "a killed server shows as")
	check.NoError(t, shared.StartAPIServer(ctx))
	before := writes.writes.Load()
	testenv.Eventually(t, ctx, "there are 200 writes more", func() bool { return writes.writes.Load() > before+200 })
	writes.stop()
	equal(t, ctx, client, inf)
	seen.check(ctx)
	if err := inf.Err(); err != nil {
		t.Errorf("recovered, but Err is %v", err)
	}
}

// TestHistoryCompacted compacts the server's history, so that the server answers 410 to the
// informer's WATCH. It checks that the informer relists, and that the handler does not receive all
// objects again.
func TestHistoryCompacted(t *testing.T) {
	ctx := begin(t)
	client := admin(t)
	inf := run[*corev1.Pod](t, ctx, shared.Config(), weir.Options{})
	seen := newView(t, inf)
	check.NoError(t, inf.WaitForSync(ctx))
	testenv.Eventually(t, ctx, "the handler has been told of everything", func() bool { return seen.handled.Stats().Lag == 0 })
	before := seen.handled.Stats().Handled
	writes := startChurn(t, ctx, client, 2)
	testenv.Eventually(t, ctx, "there are 50 writes", func() bool { return writes.writes.Load() > 50 })
	writes.stop()
	check.NoError(t, shared.Expire(ctx))
	testenv.Eventually(t, ctx, "the informer has listed again", func() bool { return inf.Status()[0].Relists > 0 && inf.Err() == nil })
	equal(t, ctx, client, inf)
	seen.check(ctx)
	if n := seen.handled.Stats().Handled - before; n > pods/2 {
		t.Errorf("%d events for %d writes: the relist replayed what had not changed", n, writes.writes.Load())
	}
	if status := inf.Status()[0]; status.Mode != weir.ModeList {
		t.Errorf("the mode against this server is %s", status.Mode)
	}
}

// bodyHook calls the function do once, when at least the given number of bytes of a response body
// have been read.
type bodyHook struct {
	after int
	do    func()
	once  sync.Once
}

func (h *bodyHook) wrap(next http.RoundTripper) http.RoundTripper {
	return &hookedTransport{RoundTripper: next, hook: h}
}

type hookedTransport struct {
	http.RoundTripper
	hook *bodyHook
}

func (t *hookedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/pods") {
		resp.Body = &hookedBody{ReadCloser: resp.Body, hook: t.hook}
	}
	return resp, err
}

// WrappedRoundTripper returns the inner transport. client-go needs it to close idle connections.
func (t *hookedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

type hookedBody struct {
	io.ReadCloser
	hook *bodyHook
	read int
}

func (b *hookedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), 4<<10)])
	if b.read += n; b.read >= b.hook.after {
		b.hook.once.Do(b.hook.do)
	}
	return n, err
}
