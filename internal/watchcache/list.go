package watchcache

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// stateFor is the state that a LIST asks for, the key where it begins, and how many objects it may answer with (0: any number).
func (c *Cache) stateFor(ctx context.Context, p *params) (st *state, start string, limit int, err error) {
	limit = int(min(max(p.limit, 0), 1<<30))
	latest := p.rv == 0 && p.version != "" // "0": whatever there is, all of it
	if latest {
		limit = 0
	}
	switch {
	case p.continueToken != "":
		st, start, err = c.continued(ctx, p.continueToken)
	case p.match == metav1.ResourceVersionMatchExact:
		st, err = c.exactly(ctx, p.rv)
	case latest:
		st = c.current()
	case p.rv > 0 && p.match == "" && limit > 0:
		st, err = c.exactly(ctx, p.rv)
	default:
		st, err = c.notOlderThan(ctx, p.rv)
	}
	return st, start, limit, err
}

// continued is the state and the first key of a later page.
func (c *Cache) continued(ctx context.Context, text string) (*state, string, error) {
	t, err := parseToken(text)
	if err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	if t.ResourceVersion == inconsistent {
		st, err := c.notOlderThan(ctx, uint64(t.Least))
		return st, t.Start, err
	}
	st, err := c.exactly(ctx, uint64(t.ResourceVersion))
	if apierrors.IsResourceExpired(err) {
		expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter, or go on with the continue token in this response: the rest " +
			"of the list is then as it is now, and does not fit the first part where objects changed in between.")
		expired.ErrStatus.ListMeta.Continue = token{ResourceVersion: inconsistent, Least: t.ResourceVersion, Start: t.Start}.String()
		return nil, "", expired
	}
	return st, t.Start, err
}

// page is what a LIST answers with.
type page struct {
	meta  wire.ListMeta
	items iter.Seq[*store.Object]
	size  int64 // of the items in a protobuf list
}

// list answers a LIST. An error is returned only as long as nothing was answered.
func (c *Cache) list(w http.ResponseWriter, r *http.Request, p *params, s *selector, f form) error {
	st, start, limit, err := c.stateFor(r.Context(), p)
	if err != nil {
		return err
	}
	pl := c.plan(st, s)
	m := &matcher{selector: pl.rest, cache: c}
	sc := newScratch()
	sc.lend(m, &f)
	defer sc.release(m, &f)
	ctx := r.Context()
	pg, err := c.page(ctx, &pl, s, start, limit, m)
	if err == nil && f.enc == wire.Protobuf {
		pg.size, err = measure(ctx, pg.items, m, &f)
	}
	if ctx.Err() != nil { // nobody is there any more to be told anything
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	w.Header().Set("Content-Type", f.contentType())
	w.Header().Set("Cache-Control", "no-cache, private")
	if r.Method == http.MethodHead {
		return nil
	}
	out := c.newBody(w, r)
	defer out.end()
	if f.shape == table {
		err = writeTable(out, pg, m, &f)
	} else {
		err = writeList(out, pg, m, &f)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil && !out.broken {
		// Too late for a Status: cutting the connection is the only way to say that this is not the whole list.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// maxChosen is how many objects room is made for before it is known how many are chosen.
const maxChosen = 1024

// page chooses the objects. Only their addresses are collected, and not even those when they are all wanted.
func (c *Cache) page(ctx context.Context, pl *plan, s *selector, start string, limit int, m *matcher) (page, error) {
	st := pl.state
	pg := page{meta: wire.ListMeta{ResourceVersion: formatVersion(st.rv), RemainingItemCount: -1}}
	if s.shard != nil {
		pg.meta.ShardSelector = s.shard.String()
	}
	if limit == 0 && start == "" && s.all() {
		pg.items = st.from("")
		c.indexes.used(pl, s, false, st.sn.Len(), st.sn.Len())
		return pg, nil
	}
	chosen := make([]*store.Object, 0, min(pl.few, maxChosen))
	fetched, remaining := 0, int64(0)
	for o := range pl.walk(start) {
		if err := abandoned(ctx, fetched); err != nil {
			c.indexes.used(pl, s, false, fetched, len(chosen))
			return pg, err
		}
		fetched++
		ok, err := m.match(o)
		if err != nil {
			return pg, err
		}
		switch {
		case !ok:
			continue
		case limit == 0 || len(chosen) < limit:
			chosen = append(chosen, o)
			continue
		case remaining == 0:
			pg.meta.Continue = token{ResourceVersion: int64(st.rv), Start: o.Key()}.String()
			c.kept.keep(st)
		}
		remaining++
		if !s.keyOnly() { // kube-apiserver does not count what a selector leaves either
			remaining = -1
			break
		}
	}
	if remaining > 0 {
		pg.meta.RemainingItemCount = remaining
	}
	pg.items = slices.Values(chosen)
	c.indexes.used(pl, s, false, fetched, len(chosen))
	return pg, nil
}

// askEvery is how many objects are looked at between two looks whether the caller is still there.
const askEvery = 64

// abandoned returns an error if the caller of a LIST has gone. n objects have been looked at.
func abandoned(ctx context.Context, n int) error {
	if n%askEvery != 0 {
		return nil
	}
	return ctx.Err()
}

// measure adds up what the items take in a protobuf list.
func measure(ctx context.Context, items iter.Seq[*store.Object], m *matcher, f *form) (size int64, err error) {
	seen := 0
	for o := range items {
		if err := abandoned(ctx, seen); err != nil {
			return 0, err
		}
		seen++
		n := o.Size()
		if !f.asIs() {
			object, err := m.form(o, f)
			if err != nil {
				return 0, err
			}
			n = len(object)
		}
		size += wire.ListItemSize(n)
	}
	return size, nil
}

// form returns an object in the form that the client asked for, valid until the next call.
func (m *matcher) form(o *store.Object, f *form) ([]byte, error) {
	raw, err := m.bytes(o)
	if err != nil {
		return nil, err
	}
	return f.object(raw)
}

func writeList(out *body, pg page, m *matcher, f *form) error {
	l := wire.NewListWriter(out, f.enc, f.listTypeMeta(), pg.meta, pg.size)
	for o := range pg.items {
		if err := writeItem(out, l, o, m, f); err != nil {
			return err
		}
	}
	return l.Close()
}

func writeItem(out *body, l *wire.ListWriter, o *store.Object, m *matcher, f *form) error {
	if f.asIs() && m.object != o {
		if err := l.StartItem(o.Size()); err != nil {
			return err
		}
		if done, err := out.unpack(o); done || err != nil {
			return err
		}
		raw, err := m.bytes(o)
		if err == nil {
			_, err = out.Write(raw)
		}
		return err
	}
	object, err := m.form(o, f)
	if err != nil {
		return err
	}
	return l.WriteItem(object)
}

// writeTable writes one Table, row by row.
func writeTable(out *body, pg page, m *matcher, f *form) error {
	t := f.newTable()
	t.ResourceVersion, t.Continue = pg.meta.ResourceVersion, pg.meta.Continue
	if pg.meta.RemainingItemCount > 0 {
		t.RemainingItemCount = &pg.meta.RemainingItemCount
	}
	if pg.meta.ShardSelector != "" {
		t.ShardInfo = &metav1.ShardInfo{Selector: pg.meta.ShardSelector}
	}
	head, err := json.Marshal(t)
	if err != nil {
		return err
	}
	// The rows are last in a Table, and these are none: what is left off is "]}".
	if _, err := out.Write(head[:len(head)-2]); err != nil {
		return err
	}
	separator := []byte(nil)
	for o := range pg.items {
		raw, err := m.bytes(o)
		if err != nil {
			return err
		}
		row, err := f.row(raw)
		if err != nil {
			return err
		}
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(separator, text...)); err != nil {
			return err
		}
		separator = []byte(",")
	}
	_, err = out.Write([]byte("]}"))
	return err
}
