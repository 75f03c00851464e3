package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// growthReport contains the results of bench grow. The JSON names are stable.
type growthReport struct {
	setting
	Flags []string    `json:"flags,omitempty"` // the flags that change what is measured
	Axes  []grownAxis `json:"axes"`
}

// grownAxis contains the results on one axis.
type grownAxis struct {
	Name   string        `json:"name"`
	Points []growthPoint `json:"points"`

	axis axis
}

// growthPoint contains the figures of a side at a point. If it was not measured, Skipped is the
// reason.
type growthPoint struct {
	N       int            `json:"n"`
	Side    string         `json:"side"`
	Figures figures.Values `json:"figures,omitempty"`
	Skipped string         `json:"skipped,omitempty"`
}

// measure measures the axes. If a point fails, it skips the point and continues, because a
// measurement may take an hour. measure returns the errors at the end.
func (f *growFlags) measure(ctx context.Context, axes []axis) (*growthReport, error) {
	report := &growthReport{setting: newSetting(f.clusterChosen(), f.Config), Flags: f.told()}
	var failed []error
	for _, a := range axes {
		grown, err := f.measureAxis(ctx, a)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed = append(failed, err)
		report.Axes = append(report.Axes, grown)
	}
	return report, errors.Join(failed...)
}

func (f *growFlags) measureAxis(ctx context.Context, a axis) (out grownAxis, err error) {
	out = grownAxis{Name: a.name, axis: a}
	m, err := a.open(ctx, f)
	if err != nil {
		return out, fmt.Errorf("%s: %w", a.name, err)
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for i, n := range a.points {
		for _, side := range a.sides {
			p := growthPoint{N: n, Side: side, Skipped: out.tooMuch(side, n, usableShare*f.available())}
			if p.Skipped == "" {
				var failed error
				if p.Figures, failed = m.measure(ctx, side, n); failed != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", a.name, failed))
					p.Skipped = "it failed"
				}
			}
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			out.Points = append(out.Points, p)
			what := p.Skipped
			if p.Figures != nil {
				what = figures.Headline(p.Figures, a.figures)
			}
			fmt.Fprintf(f.Progress, "%s %d/%d  %9s  %-14s  %s\n", a.name, i+1, len(a.points), humanize.Count(int64(n)), side, what)
		}
	}
	return out, err
}

// usableShare is the share of the available memory that a side may use. Other processes need the
// rest.
const usableShare = 0.8

// availableMemory returns the memory that this machine can provide, in bytes. It returns 0 if the
// system does not report it.
func availableMemory() float64 {
	_, available := machineMemory()
	return available
}

// tooMuch returns why a side cannot be measured at point n: its memory at the previous point
// suggests that it would need more than the given memory. It returns "" if the side can be
// measured.
func (g *grownAxis) tooMuch(side string, n int, memory float64) string {
	for _, p := range slices.Backward(g.Points) {
		if p.Side != side {
			continue
		}
		if p.Figures == nil {
			return p.Skipped
		}
		grows := p.Figures["peakRSSBytes"]
		if by, ok := p.Figures["rssGrowthBytes"]; ok { // the rest of the memory does not depend on n
			grows = by
		}
		needs := p.Figures["peakRSSBytes"] + grows*(float64(g.axis.scale(n))/float64(g.axis.scale(p.N))-1)
		if memory > 0 && needs > memory {
			return fmt.Sprintf("it would need about %s", humanize.Bytes(int64(needs)))
		}
		return ""
	}
	return ""
}

// writeTable writes a table for each axis, with a row for each figure and side and a column for
// each point.
func (r *growthReport) writeTable(w io.Writer) error {
	for i, g := range r.Axes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := g.rows()
		columns := figures.Fit(rows)
		columns[1].Left = true
		if err := figures.Write(w, columns, rows...); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(humanize.Wrap(r.text(), tableWidth), "\n"))
	return err
}

func (g grownAxis) rows() [][]string {
	head := []string{g.axis.label, ""}
	for _, n := range g.axis.points {
		head = append(head, humanize.Count(int64(n)))
	}
	rows := [][]string{head}
	for _, f := range g.axis.figures {
		label := f.Label
		for _, side := range g.axis.sides {
			row := []string{label, nameOf[side]}
			for _, n := range g.axis.points {
				row = append(row, g.at(side, n).Cell(f.Key, f.Unit))
			}
			if slices.ContainsFunc(row[2:], func(cell string) bool { return cell != "-" }) {
				rows, label = append(rows, row), ""
			}
		}
	}
	return rows
}

// at returns the figures of a side at a point, or nil if it was not measured.
func (g grownAxis) at(side string, n int) figures.Values {
	for _, p := range g.Points {
		if p.Side == side && p.N == n {
			return p.Figures
		}
	}
	return nil
}
