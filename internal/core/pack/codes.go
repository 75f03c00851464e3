package pack

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/compress"
)

const (
	// siblingSamples is the number of blocks, of objects packed against siblings, from which codes are
	// trained. Until they are trained, objects are packed without siblings.
	siblingSamples = 32
	// groupSamples limits the blocks of one group among them, except for the first codes: the first
	// objects are often all of one group that is not typical.
	groupSamples = 2
	// blockBytes limits the size of such a block.
	blockBytes = 4 << 10
)

// codes are the entropy codes for blocks of objects against their siblings. They belong to a base,
// like a dictionary to the objects that are packed with it.
type codes struct {
	model *compress.Model // nil: they are still being trained
	pool  sync.Pool       // of *siblingScratch
}

type siblingScratch struct {
	coder *compress.Coder // nil without a model
	block []byte
	base  unpacked // one that is not kept
}

func (c *codes) scratch() *siblingScratch {
	if sc, ok := c.pool.Get().(*siblingScratch); ok {
		return sc
	}
	sc := &siblingScratch{}
	if c.model != nil {
		sc.coder = compress.NewCoder(c.model, nil)
	}
	return sc
}

func (c *codes) put(sc *siblingScratch) { c.pool.Put(sc) }

// learner trains codes. It trains the first from the first blocks, so that small clusters have
// some. When it has blocks of enough groups it trains better ones from these, and again for each
// new dictionary, which is created when objects have drifted.
type learner struct {
	codes    atomic.Pointer[codes] // of new bases
	learning atomic.Bool

	mu      sync.Mutex
	samples []sample
}

// sample is a block of an object of a group.
type sample struct {
	group uint64
	block []byte
}

func (l *learner) init() {
	l.codes.Store(&codes{})
	l.learning.Store(true)
}

// relearn trains new codes, for future bases.
func (l *learner) relearn() { l.learning.Store(true) }

// learn adds a sample if one is needed, and trains codes when there are enough.
func (l *learner) learn(group uint64, block []byte) {
	if !l.learning.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.codes.Load().model == nil
	if !l.learning.Load() || !first && l.of(group) >= groupSamples {
		return
	}
	l.samples = append(l.samples, sample{group, slices.Clone(block[:min(len(block), blockBytes)])})
	if len(l.samples) < siblingSamples {
		return
	}
	blocks := make([][]byte, len(l.samples))
	for i, s := range l.samples {
		blocks[i] = s.block
	}
	l.codes.Store(&codes{model: compress.Train(blocks...)})
	// The first ones may be of few groups. The limit per group then keeps those that count.
	all := l.samples
	l.samples = nil
	for _, s := range all {
		if l.of(s.group) < groupSamples {
			l.samples = append(l.samples, s)
		}
	}
	if len(l.samples) == len(all) {
		l.samples = nil
		l.learning.Store(false)
	}
}

// of returns the number of a group's samples.
func (l *learner) of(group uint64) (n int) {
	for _, s := range l.samples {
		if s.group == group {
			n++
		}
	}
	return n
}

// footprint returns the bytes of the samples and the newest codes. Older codes, which only bases
// refer to, have the same size.
func (l *learner) footprint() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.samples {
		n += int64(cap(s.block)) + 32
	}
	if c := l.codes.Load(); c.model != nil {
		n += 2 << 10
	}
	return n
}
