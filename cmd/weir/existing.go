package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	// startLines are the lines on a terminal that show no objects at the start: the command, the lines
	// before the table, its header, the number of further objects, and a free line.
	startLines = 6
	// minRows is the smallest number of objects of a resource that a small terminal shows.
	minRows = 3
	// fittedRows is the number of rows that printAll keeps, so that their columns are aligned.
	fittedRows = 200
)

// printExisting prints the objects after the first sync: all of them, or as many rows as fit on the
// terminal. If the terminal is too small, it first prints objects that need attention, and then
// prints the number of the others. It keeps at most two screens of objects. It returns early if ctx
// ends.
func (c *changes[T]) printExisting(ctx context.Context) error {
	if c.w.onlyChanges {
		return nil
	}
	objects := c.inf.Snapshot()
	limit := c.rows()
	if limit == 0 || objects.Len() <= limit {
		return c.printAll(ctx, objects.Items())
	}
	chosen, text := c.choose(ctx, objects.Items(), limit)
	if err := c.printAll(ctx, slices.Values(chosen)); err != nil || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(c.w.err, "%s%s; --all prints them\n", c.w.label(), text)
	return nil
}

// rows returns the number of objects of this resource that the terminal shows at the start; 0 means
// all. Outputs that are not tables are for programs, so they contain all objects.
func (c *changes[T]) rows() int {
	_, height := c.sheet.size()
	if c.w.all || height == 0 || !c.w.tabular() {
		return 0
	}
	return max(minRows, (height-startLines)/c.sheet.watches)
}

// choose returns up to limit objects, first those that need attention, and a text about the others.
func (c *changes[T]) choose(ctx context.Context, items iter.Seq[weir.Item[T]], limit int) ([]weir.Item[T], string) {
	var chosen, healthy []weir.Item[T]
	var count, unhealthy int
	rated := false // a rule exists for at least one object
	for item := range items {
		if ctx.Err() != nil {
			break
		}
		count++
		object, err := item.Copy() // the informer would keep a shared object decoded
		well, known := false, true
		if err == nil {
			well, known = c.w.columns.Healthy(object)
		}
		rated = rated || known
		switch {
		case !well:
			if unhealthy++; unhealthy <= limit {
				chosen = append(chosen, item)
			}
		case len(healthy) < limit:
			healthy = append(healthy, item)
		}
	}
	shown := len(chosen)
	chosen = append(chosen, healthy[:min(len(healthy), limit-shown)]...)
	text := fmt.Sprintf("… and %s more %s", humanize.Count(int64(count-len(chosen))), c.w.resource.named(count-len(chosen)))
	switch {
	case unhealthy > shown:
		text += fmt.Sprintf(", %s of them not healthy", humanize.Count(int64(unhealthy-shown)))
	case rated:
		text += ", all healthy"
	}
	return chosen, text
}

// printAll prints objects until ctx ends.
func (c *changes[T]) printAll(ctx context.Context, items iter.Seq[weir.Item[T]]) error {
	var rows [][]string
	flush := func() error {
		for _, cells := range rows {
			c.sheet.fit(c.sheet.objects, cells...)
		}
		for _, cells := range rows {
			if err := c.sheet.row(c.sheet.objects, cells, nil, nil); err != nil {
				return err
			}
		}
		rows = rows[:0]
		return nil
	}
	for item := range items {
		if ctx.Err() != nil {
			return nil
		}
		var err error
		switch {
		case c.w.tabular():
			var cells []string
			if cells, err = c.cells(item); err == nil {
				rows = append(rows, cells)
			}
		case c.format.output == outputJSON || c.format.output == outputYAML:
			err = c.printEvent(weir.Added, item)
		default:
			err = c.printItem(item)
		}
		if err := c.complain(item.Key(), err); err != nil {
			return err
		}
		if len(rows) == fittedRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// cells returns the row of an object in the table of objects.
func (c *changes[T]) cells(item weir.Item[T]) ([]string, error) {
	if c.format.output == outputCustomColumns {
		object, err := c.decoded(item)
		if err != nil {
			return nil, err
		}
		return c.format.cells(object)
	}
	more, err := c.more(item, time.Now())
	if err != nil {
		return nil, err
	}
	return c.sheet.cells(item.Namespace(), c.shown(item), more), nil
}

// printOnce prints the output of --once: the objects, or with --stats numbers about them.
func (c *changes[T]) printOnce(ctx context.Context, s syncSummary) error {
	switch {
	case !c.w.stats:
		if err := c.printExisting(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		return nil
	case c.format.output == outputJSON || c.format.output == outputYAML:
		return c.printDocument(s.report())
	}
	_, err := fmt.Fprintln(c.sheet, s)
	return err
}
