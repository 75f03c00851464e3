package main

import (
	"io"
	"slices"
	"sync"
)

// sheet is the output of changes: one table for all resources that are watched together. It is safe
// for concurrent use, and does not interleave writes.
type sheet struct {
	several    bool // resources: names start with their kind
	namespaced bool // one of them is
	header     []string

	mu     sync.Mutex
	out    checkedWriter
	width  int // of the terminal; 0: no terminal
	colour bool
	table  *table
	headed bool
}

// newSheet returns a sheet for watches that print to the same writer.
func newSheet(out io.Writer, watches ...*watch) *sheet {
	s := &sheet{several: len(watches) > 1, out: newCheckedWriter(out), width: terminalWidth(out), colour: coloured(out)}
	s.table = &table{out: s.out, limit: s.width}
	var columns []string
	for _, w := range watches {
		s.namespaced = s.namespaced || w.resource.Namespaced
		if w.resource.Kind == podKind {
			columns = podColumns
			if w.output == outputWide {
				columns = slices.Concat(podColumns, wideColumns)
			}
		}
	}
	s.header = s.cells("TIME", "EVENT", "NAMESPACE", "NAME", columns)
	return s
}

// fit makes the columns wide enough for these cells, before the first row.
func (s *sheet) fit(cells ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.fit(cells...)
}

// row prints a row and the lines below it. The first row follows the names of the columns.
func (s *sheet) row(cells []string, below []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headed {
		s.headed = true
		if err := s.table.row(s.header...); err != nil {
			return err
		}
	}
	if err := s.table.row(cells...); err != nil {
		return err
	}
	_, err := s.out.Write(below)
	return err
}

// cells returns the cells of a row. It omits the namespace if no resource has one.
func (s *sheet) cells(at, event, namespace, name string, more []string) []string {
	cells := []string{at, event}
	if s.namespaced {
		cells = append(cells, namespace)
	}
	return append(append(cells, name), more...)
}

// Write writes output that is not a row.
func (s *sheet) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}
