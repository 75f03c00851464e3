package bench

import (
	"context"
)

// measureIndex measures an index by a function of the object that is added when nobody has looked at any object yet: until
// the first lookup, of what no object has, is answered; then lookups.
func measureIndex(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handle(0, r.count); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	settledHeap() // what the sync left to collect is not the index's
	begin := now(0)
	if err := r.index(true); err != nil {
		return nil, err
	}
	if _, err := r.by("no app is called so"); err != nil {
		return nil, err
	}
	elapsed, cpu, _, _ := r.since(begin)
	f := Figures{"buildSeconds": elapsed.Seconds(), "buildCPUSeconds": cpu.Seconds(), "objects": float64(r.len())}

	_, values, err := r.pick(readKeys)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, errNothing
	}
	if f["indexFirstNanos"], err = timed(len(values), func(i int) error {
		_, err := r.by(values[i])
		return err
	}); err != nil {
		return nil, err
	}
	if err := r.timeIndex(f, values); err != nil {
		return nil, err
	}
	f["heapBytes"] = float64(settledHeap().bytes)
	return f, ctx.Err()
}
