package doctor

import (
	"math"

	"github.com/weirproject/weir/internal/cost"
)

// batch is LISTs, or WATCHes that begin with one, of one client and resource that are alike.
type batch struct {
	c         Client
	work      cost.Work
	size      Size
	selection selection
	// held is what one of them holds of the server's memory while it is under way, in bytes as they
	// are stored.
	held float64
}

// compressedFrom is the size from which kube-apiserver compresses answers for clients that ask for
// that, as those in Go do.
const compressedFrom = 128 << 10

// list returns what LISTs of some objects are.
func (d *Doctor) list(c Client, s Size, sel selection, lists, quorum float64) batch {
	sent, looked := d.share(s, sel)
	b := batch{c: c, size: s, selection: sel, work: cost.Work{
		Requests: lists, Quorum: quorum,
		Looked: looked * float64(s.Objects), Sent: sent * float64(s.Objects) * s.Bytes,
	}}
	b.work.Encoding = encoding(c, s.Resource, b.work.Sent)
	b.held = b.work.Sent
	return b
}

// encoding returns in which encoding a client gets an answer.
func encoding(c Client, resource string, sent float64) cost.Encoding {
	switch large := sent >= compressedFrom; {
	case getsProtobuf(c, resource) && large:
		return cost.ProtobufGzip
	case getsProtobuf(c, resource):
		return cost.Protobuf
	case large:
		return cost.JSONGzip
	}
	return cost.JSON
}

// paged returns the same LISTs in pages, as many as what each sends takes. Every LIST of pages is
// as new as the storage.
func (b batch) paged() batch {
	objects := math.Round(b.work.Sent / b.size.Bytes)
	b.work.PageCount = math.Max(1, math.Ceil(objects/pageObjects))
	b.work.Quorum, b.held = b.work.Requests, b.work.Sent/b.work.PageCount
	b.work.Encoding = encoding(b.c, b.size.Resource, b.held)
	return b
}

// atMost returns the same LISTs with no more objects each than the limits of their pages have let
// them have. A selector may have all objects looked at all the same.
func (b batch) atMost(objects float64) batch {
	b.work.Sent = min(b.work.Sent, objects*b.size.Bytes)
	if b.selection == selectAll {
		b.work.Looked = min(b.work.Looked, objects)
	}
	return b
}

// pageObjects is the limit of client-go's pager, and of kubectl.
const pageObjects = 500

// initial returns as many WATCHes that begin with the objects. These are not compressed.
func (b batch) initial() batch {
	b.work.Encoding, b.work.Quorum = cost.Initial, b.work.Requests
	return b
}

// batches returns what a client asks for of one resource: none if nobody knows how many objects
// there are.
func (d *Doctor) batches(c Client, u *usage) (all []batch) {
	s := d.size(u.resource)
	if s.Objects == 0 {
		return nil
	}
	for sel := range selections {
		n, w := u.listTallies[sel], u.watchTallies[sel]
		if whole := n.lists - n.paged; whole > 0 {
			all = append(all, d.list(c, s, sel, float64(whole), float64(n.quorum-n.paged)))
		}
		if n.paged > 0 {
			all = append(all, d.list(c, s, sel, float64(n.paged), 0).atMost(n.objectsEach()).paged())
		}
		if w.initial > 0 {
			all = append(all, d.list(c, s, sel, float64(w.initial), 0).initial())
		}
	}
	return all
}

// shard returns as many LISTs of one part in so many, for which all objects are looked at.
func (b batch) shard(of float64) batch {
	b.work.Looked = float64(b.size.Objects)
	b.work.Sent /= of
	b.held /= of
	if b.work.PageCount > 0 {
		return b.paged()
	}
	return b
}

// costOf sums up what batches cost a server.
func costOf(k *cost.Coefficients, all []batch) (sum cost.Cost) {
	for _, b := range all {
		sum = sum.Add(k.Of(b.work))
	}
	return sum
}

// clientCost returns what the LISTs of a client cost, and the memory that those held which were
// under way at once.
func (d *Doctor) clientCost(c *client) (sum cost.Cost, held float64) {
	m := d.options.Model
	if m == nil {
		return sum, 0
	}
	for _, u := range c.usages {
		all := d.batches(c.name, u)
		sum = sum.Add(costOf(&m.Server, all))
		for _, b := range all {
			held = max(held, b.held)
		}
	}
	return sum, held * m.Memory.Held * c.concurrency()
}

// concurrency estimates how many LISTs of a client were under way at once, at least 1.
func (c *client) concurrency() float64 {
	if c.listPeak == nil {
		return 1
	}
	return math.Ceil(max(1, float64(c.listPeak.most)/1000))
}
