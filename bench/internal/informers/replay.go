package informers

import (
	"context"
	"fmt"
	"time"

	"github.com/weirproject/weir/bench/internal/trace"
)

// Replay is a verb whose contenders are traced, once each.
type Replay struct {
	Verb  string
	Sides []Side
	Every time.Duration // between samples
}

// Side is a contender of a Replay. The zero value is client-go's informer with its defaults.
type Side struct {
	Label   string
	Weir    bool // weir's informer, or with DropIn its drop-in
	DropIn  bool
	List    bool    // of client-go's: with LISTs in the place of WATCHes that send the state
	Extract bool    // a cache made by hand, of what meta.ExtractList gives
	Stretch float64 // its resync period is as many times the Replay's; 0: once
}

// contender returns the contender of a bench that the side stands for.
func (s Side) contender() contender {
	switch {
	case s.Weir:
		return contender{side: sideWeir}
	case s.Extract:
		return contender{side: sideExtract}
	case s.List:
		return contender{sideClientgo, modeList}
	}
	return contender{sideClientgo, modeWatchList}
}

// Run runs the sides in turn, each in a process of its own, and calls done for each. The first
// error ends it.
func (r Replay) Run(ctx context.Context, o Options, done func(trace.Traced)) error {
	v, ok := verbNamed(r.Verb)
	if !ok {
		return fmt.Errorf("no such verb: %q", r.Verb)
	}
	s := o.spec(v)
	s.Every = r.Every
	if v.Stub {
		stub, at, err := stubFor(ctx, o, s)
		if err != nil {
			return err
		}
		defer stub.Stop()
		s.Stub = at
	}
	for _, side := range r.Sides {
		one := s
		one.DropIn, one.Stretch = side.DropIn, side.Stretch
		f, traced, err := runOne(ctx, side.contender(), one, o.Args)
		if err != nil {
			return fmt.Errorf("%s: %w", side.Label, err)
		}
		done(trace.Traced{Label: side.Label, Figures: f, Trace: traced})
	}
	return nil
}
