package watchcache

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// stateForList returns the state that a LIST requests, the first key to return, and the maximum
// number of objects to return (0: no limit).
func (c *Cache) stateForList(ctx context.Context, rd *request.Request) (st *state, start string, limit int, err error) {
	if !rd.AnyVersion() { // with any version, kube-apiserver ignores the limit
		limit = int(min(max(rd.Limit, 0), 1<<30))
	}
	switch {
	case rd.Continue != nil:
		start = rd.Continue.Key(rd.Namespace)
		st, err = c.stateForContinue(ctx, rd.Continue)
	case rd.AnyVersion():
		st = c.currentState()
	case rd.ExactVersion() > 0:
		st, err = c.stateExactly(ctx, rd.RV)
	default:
		st, err = c.stateNotOlderThan(ctx, rd.RV)
	}
	return st, start, limit, err
}

// stateForContinue returns the state of a later page.
func (c *Cache) stateForContinue(ctx context.Context, t *request.ContinueToken) (*state, error) {
	if t.ResourceVersion == request.Inconsistent {
		return c.stateNotOlderThan(ctx, uint64(t.MinResourceVersion))
	}
	st, err := c.stateExactly(ctx, uint64(t.ResourceVersion))
	if apierrors.IsResourceExpired(err) {
		expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter, or continue with the continue token in this response: the rest " +
			"of the list then has the current state, which is inconsistent with the first part for objects that changed in between.")
		expired.ErrStatus.ListMeta.Continue = request.ContinueToken{
			ResourceVersion: request.Inconsistent, MinResourceVersion: t.ResourceVersion, Start: t.Start,
		}.String()
		return nil, expired
	}
	return st, err
}

// page is the result of a LIST.
type page struct {
	meta     wire.ListMeta
	items    iter.Seq[*store.Object]
	listSize int64  // size of the items in a protobuf list
	next     string // first key of the next page; empty: there is none
	bytes    int64  // memory of the page itself: the addresses of its objects
}

// list answers a LIST. It returns an error only if it has written nothing.
func (c *Cache) list(w http.ResponseWriter, r *http.Request, rd *request.Request, s *selector, rep representation) error {
	st, start, limit, err := c.stateForList(r.Context(), rd)
	if err == nil {
		err = rep.checkForm(true)
	}
	if err != nil {
		return err
	}
	pl := c.planQuery(st, s)
	m := &matcher{selector: pl.residual, cache: c}
	defer newScratch(m, &rep).release(m, &rep)
	ctx := r.Context()
	pg, err := c.page(ctx, &pl, s, start, limit, m)
	if pg.next != "" {
		pg.meta.Continue = request.NewContinueToken(st.rv, rd.Namespace, pg.next).String()
	}
	if err == nil && rep.Encoding == wire.Protobuf {
		pg.listSize, err = measureItems(ctx, pg.items, m, &rep)
	}
	if ctx.Err() != nil { // the client has disconnected
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", rep.ContentType())
	w.Header().Set("Cache-Control", "no-cache, private")
	if r.Method == http.MethodHead {
		return nil
	}
	out, err := c.newBody(w, r, pg.bytes)
	if err != nil {
		return err
	}
	defer out.end()
	if rep.Shape == request.Table {
		err = writeTable(out, pg, m, &rep)
	} else {
		err = writeList(out, pg, m, &rep)
	}
	if err == nil {
		err = out.Close()
	}
	if errors.Is(err, ErrUnread) && !out.started {
		return err
	}
	if err != nil && !out.clientGone {
		// A Status cannot be sent any more. Only a closed connection shows the client that the list is
		// incomplete.
		panic(http.ErrAbortHandler)
	}
	return nil
}

const addressBytes = 8

// maxPreallocated bounds the capacity that page allocates before it knows how many objects match.
const maxPreallocated = 1024

// page selects the objects of a page and collects their addresses. If the LIST requests all
// objects, page collects nothing and returns an iterator over the state.
func (c *Cache) page(ctx context.Context, pl *queryPlan, s *selector, start string, limit int, m *matcher) (page, error) {
	st := pl.state
	pg := page{meta: wire.ListMeta{ResourceVersion: resourceversion.Format(st.rv), RemainingItemCount: -1}}
	if s.shard != nil {
		pg.meta.ShardSelector = s.shard.String()
	}
	if limit == 0 && start == "" && s.all() {
		pg.items = st.from("")
		c.indexes.record(pl, s, false, st.sn.Len(), st.sn.Len())
		return pg, nil
	}
	chosen := make([]*store.Object, 0, min(pl.estimate, maxPreallocated))
	fetched, remaining := 0, int64(0)
	for o := range pl.walk(start) {
		if fetched%checkEvery == 0 && ctx.Err() != nil {
			c.indexes.record(pl, s, false, fetched, len(chosen))
			return pg, ctx.Err()
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
			pg.next = o.Key()
			c.pagedStates.add(st)
		}
		remaining++
		if s.queried || !s.keyOnly() { // like kube-apiserver, do not count with a selector
			remaining = -1
			break
		}
	}
	if remaining > 0 {
		pg.meta.RemainingItemCount = remaining
	}
	pg.items, pg.bytes = slices.Values(chosen), int64(cap(chosen))*addressBytes
	c.indexes.record(pl, s, false, fetched, len(chosen))
	return pg, nil
}

// checkEvery is the number of objects between two checks whether the client has disconnected.
const checkEvery = 64

// measureItems returns the size of the items in a protobuf list.
func measureItems(ctx context.Context, items iter.Seq[*store.Object], m *matcher, rep *representation) (size int64, err error) {
	seen := 0
	for o := range items {
		if seen%checkEvery == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		seen++
		n := o.Size()
		if !rep.storedAsIs() {
			object, err := m.represent(o, rep)
			if err != nil {
				return 0, err
			}
			n = len(object)
		}
		size += wire.ListItemSize(n)
	}
	return size, nil
}

// represent returns an object in the client's representation, valid until the next call.
func (m *matcher) represent(o *store.Object, rep *representation) ([]byte, error) {
	raw, err := m.bytes(o)
	if err != nil {
		return nil, err
	}
	return rep.object(raw)
}

func writeList(out *body, pg page, m *matcher, rep *representation) error {
	l := wire.NewListWriter(out, rep.Encoding, rep.listTypeMeta(), pg.meta, pg.listSize)
	l.Form = rep.listForm()
	for o := range pg.items {
		object, err := m.represent(o, rep)
		if err == nil {
			err = out.hold(cap(m.own) + cap(rep.scratch))
		}
		if err == nil {
			err = l.WriteItem(object)
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}

// writeTable writes one Table, row by row.
func writeTable(out *body, pg page, m *matcher, rep *representation) error {
	t := rep.newTable()
	head, err := codec.Marshal(wire.JSON, &struct {
		metav1.TypeMeta   `json:""`
		Metadata          json.RawMessage                `json:"metadata"`
		ColumnDefinitions []metav1.TableColumnDefinition `json:"columnDefinitions"`
		Rows              []metav1.TableRow              `json:"rows"`
	}{t.TypeMeta, pg.meta.JSON(), t.ColumnDefinitions, t.Rows})
	if err != nil {
		return err
	}
	// The rows are the last field and are empty, so the head ends in "]}".
	if _, err := out.Write(head[:len(head)-2]); err != nil {
		return err
	}
	separator := []byte(nil)
	for o := range pg.items {
		raw, err := m.bytes(o)
		if err != nil {
			return err
		}
		row, err := rep.row(raw)
		if err == nil {
			err = out.hold(cap(m.own) + cap(rep.scratch))
		}
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

// Select returns the objects of the current state that match the selectors of a query. A server
// calls it to delete a collection. An empty namespace means all namespaces.
func (c *Cache) Select(namespace string, o *request.Options) ([]*store.Object, error) {
	s, err := c.newSelector(namespace, "", o)
	if err != nil {
		return nil, err
	}
	pl := c.planQuery(c.currentState(), s)
	pg, err := c.page(context.Background(), &pl, s, "", 0, &matcher{selector: pl.residual, cache: c})
	if err != nil {
		return nil, err
	}
	return slices.Collect(pg.items), nil
}

// get answers a GET of one object. It returns an error only if it has written nothing.
func (c *Cache) get(w http.ResponseWriter, r *http.Request, rd *request.Request) error {
	st, err := c.stateNotOlderThan(r.Context(), rd.RV)
	if err != nil {
		return err
	}
	key := rd.Name
	if rd.Namespace != "" {
		key = rd.Namespace + "/" + rd.Name
	}
	o, ok := st.sn.Get(key)
	if !ok {
		return apierrors.NewNotFound(c.resource.GroupVersionResource.GroupResource(), rd.Name)
	}
	c.counters.gets.Add(1)
	rep, err := c.representationOfOne(rd.Accept, &rd.Options)
	if err != nil {
		return err
	}
	body, release, err := c.bodies.get(encodeKey{object: o, representation: rep.representationKey}, payerOf(r.Context()), func() ([]byte, error) {
		raw, err := o.AppendRaw(nil)
		if err != nil {
			return nil, err
		}
		return rep.body(raw)
	})
	if err != nil {
		return err
	}
	defer release()
	c.writeOne(w, rep.Encoding, http.StatusOK, body)
	return nil
}

// writeOne writes the body of one object. The client may take as long as for a LIST of that size.
func (c *Cache) writeOne(w http.ResponseWriter, enc wire.Encoding, code int, body []byte) {
	wd := c.readWrites.start(w)
	defer wd.close()
	wd.beginState(listRate)
	wd.wrote(len(body))
	_ = wd.during(func() error { // not late, because no time has passed
		writeBody(w, enc, code, body)
		return nil
	})
}

// Accepts returns an error if the cache cannot serve its objects in any representation that the
// client accepts. A server checks this before a write.
func (c *Cache) Accepts(r *http.Request) error {
	_, err := c.negotiate(request.ParseAccept(r.Header), &request.Options{})
	return err
}

// WriteObject answers a request with an object of the cache's resource, in the representation that
// the client accepts. It returns an error only if it has written nothing.
func (c *Cache) WriteObject(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	rep, err := c.representationOfOne(request.ParseAccept(r.Header), &request.Options{IncludeObject: request.QueryOf(r.URL).Get("includeObject")})
	if err != nil {
		return err
	}
	body, err := rep.body(raw)
	if err != nil {
		return err
	}
	c.writeOne(w, rep.Encoding, code, body)
	return nil
}

// representationOfOne returns the representation of a single object that a request accepts.
func (c *Cache) representationOfOne(a request.Accept, o *request.Options) (representation, error) {
	rep, err := c.negotiate(a, o)
	if err == nil {
		err = rep.checkForm(false)
	}
	return rep, err
}

// body returns the body of a response with one object.
func (rep *representation) body(raw []byte) ([]byte, error) {
	object, err := rep.object(raw)
	if err != nil {
		return nil, err
	}
	return appendBody(nil, rep.Encoding, rep.typeMeta(), object), nil
}
