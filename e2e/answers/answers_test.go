package answers

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// TestAnswers compares the bytes of the answers of the proxy and of kube-apiserver. The requests
// are LISTs, GETs and WATCHes of all resources in all encodings, before and after objects change.
func TestAnswers(t *testing.T) {
	ctx := shared.Begin(t, deadline+time.Duration(*rounds)*aRound)
	c := newComparison(t, ctx)
	for round := 0; round < *rounds && !t.Failed(); round++ {
		seed := seedOf(round)
		t.Logf("round %d: seed %d", round, seed)
		fill(t, ctx, seed, kept, changed, gone)
		if round > 0 {
			remove(t, ctx, made)
		}
		before := map[*resource]string{}
		for _, r := range served {
			before[r] = c.listed(t, ctx, r, kept, changed, gone)
			c.reads(t, ctx, r, before[r])
		}
		fill(t, ctx, seed+1, changed, made)
		remove(t, ctx, gone)
		var watches sync.WaitGroup
		for _, r := range served {
			watches.Go(func() { // returns after the events
				c.watches(t, ctx, r, before[r])
				c.bookmarks(t, ctx, r)
			})
		}
		watches.Wait()
		for _, r := range served {
			c.reads(t, ctx, r, c.listed(t, ctx, r, kept, changed, made))
		}
	}
	t.Logf("%d resources, %d answers, %d of them from the proxy's cache", len(served), c.compared, c.cached)
}

// reads compares LISTs of a resource at a resourceVersion, and GETs of each of its objects.
func (c *comparison) reads(t *testing.T, ctx context.Context, r *resource, version string) {
	t.Helper()
	for _, accept := range listAccepts {
		c.both(t, ctx, "LIST", r, r.path()+"?resourceVersionMatch=Exact&resourceVersion="+version, accept, 0)
	}
	for _, accept := range objectAccepts {
		for _, name := range []string{kept, changed, gone, made} {
			c.both(t, ctx, "GET", r, r.object(name)+"?resourceVersion=0", accept, 0)
		}
	}
}

// watches compares WATCHes of a resource from a resourceVersion. After that version, one object was
// changed, one created and one deleted. For CustomResourceDefinitions, one object was changed, and
// none was created or deleted.
func (c *comparison) watches(t *testing.T, ctx context.Context, r *resource, version string) {
	events := 3
	switch {
	case r.GroupVersionResource == definitions:
		events = 1
	case !r.cached():
		return
	}
	for _, accept := range objectAccepts {
		c.both(t, ctx, "WATCH", r, r.path()+"?watch=1&timeoutSeconds=20&resourceVersion="+version, accept, events)
	}
}

// bookmarks compares the bookmarks that end the initial events of WATCHes. It skips WATCHes that
// the proxy forwards, and WATCHes of CustomResourceDefinitions.
func (c *comparison) bookmarks(t *testing.T, ctx context.Context, r *resource) {
	const query = "?watch=1&timeoutSeconds=20&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
	for _, accept := range objectAccepts {
		// The proxy has no Go type for CustomResourceDefinitions.
		if r.forwarded(accept) || r.GroupVersionResource == definitions {
			continue
		}
		ours, err := c.ours.bookmark(ctx, r.path()+query, accept)
		if err == nil {
			var theirs *answer
			if theirs, err = c.theirs.bookmark(ctx, r.path()+query, accept); err == nil {
				c.same(t, "bookmark", r, accept, ours, theirs)
				continue
			}
		}
		c.fault(t, "bookmark", r, accept, "%v", err)
	}
}

// fill creates or updates the objects with the given names, of each resource. The objects get
// random values.
func fill(t *testing.T, ctx context.Context, seed int64, names ...string) {
	t.Helper()
	if _, err := shared.PutFuzzed(ctx, seed, kindsOf(served, names...)); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, putCustom(ctx, seed, names...))
}

// remove deletes the object with the given name of each resource.
func remove(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if _, err := shared.DeleteFuzzed(ctx, kindsOf(served, name)); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, deleteCustom(ctx, name))
}

// newComparison starts a proxy that caches all resources that can be cached, and waits until the
// proxy is ready.
func newComparison(t *testing.T, ctx context.Context) *comparison {
	t.Helper()
	o := proxy.Options{Upstream: shared.Config(), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
	for _, r := range served {
		if name := r.argument(); r.cached() && !slices.Contains(o.Resources, name) {
			o.Resources = append(o.Resources, name)
		}
	}
	s, err := proxy.New(ctx, o)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	check.NoError(t, s.Start())
	through := &rest.Config{Host: s.URL(), BearerToken: shared.Config().BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: s.CAData()}}
	c := &comparison{ours: newSide(t, through), theirs: newSide(t, shared.Config()), faults: map[string]int{}}
	testenv.Eventually(t, ctx, "the proxy is ready", func() bool {
		a, err := c.ours.ask(ctx, "/readyz", "", 0)
		return err == nil && a.code == http.StatusOK
	})
	return c
}
