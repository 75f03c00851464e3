package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/tools/command"
)

// changes prints the events after the first sync. handle may run at the same time as one of the
// other methods. No two of the other methods may run at the same time.
type changes[T weir.Object] struct {
	w      *watch
	inf    *weir.Informer[T]
	begun  chan struct{} // closed by begin
	sheet  *sheet
	format *format
	fitted bool

	added, modified, deleted atomic.Int64
}

func newChanges[T weir.Object](w *watch, inf *weir.Informer[T]) (*changes[T], error) {
	format, err := parseFormat(w.output)
	if err != nil {
		return nil, err
	}
	return &changes[T]{w: w, inf: inf, begun: make(chan struct{}), sheet: w.sheet, format: format}, nil
}

// begin makes handle print the changes. The caller calls begin once, after it has printed the
// initial state.
func (c *changes[T]) begin() { close(c.begun) }

// handle counts an event and prints it. It ignores the events of the first list, which are not
// changes. It blocks until begin is called or ctx ends. If a write fails, the sheet sends the error
// to its failed channel.
func (c *changes[T]) handle(ctx context.Context, e weir.Event[T]) {
	if e.Initial {
		return
	}
	select {
	case <-c.begun:
	case <-ctx.Done():
		return
	}
	switch e.Type {
	case weir.Added:
		c.added.Add(1)
	case weir.Updated:
		c.modified.Add(1)
	case weir.Deleted:
		c.deleted.Add(1)
	}
	var err error
	switch c.format.output {
	case outputJSON, outputYAML:
		err = c.printEvent(e)
	case outputName, outputJSONPath, outputCustomColumns:
		err = c.printItem(e.Item())
	default:
		err = c.printRow(e)
	}
	if unwritten := errors.As(err, new(writeError)); err != nil && !unwritten && ctx.Err() == nil {
		fmt.Fprintf(c.w.err, "%s: %s\n", e.Key(), command.OneLine(err))
	}
}

// summary returns the number of stored objects, and the number of changes of each type.
func (c *changes[T]) summary() string {
	a, m, d := c.added.Load(), c.modified.Load(), c.deleted.Load()
	return fmt.Sprintf("%s objects, %s changes (%s added, %s modified, %s deleted)", humanize.Count(int64(c.inf.Len())),
		humanize.Count(a+m+d), humanize.Count(a), humanize.Count(m), humanize.Count(d))
}

// printRow prints an event as a row of the table. With --diff it prints the changed fields below
// the row.
func (c *changes[T]) printRow(e weir.Event[T]) error {
	now := time.Now()
	more, err := c.more(e.Item(), now)
	if err != nil {
		return err
	}
	if !c.fitted {
		c.fitted = true
		c.fit(more)
	}
	var below []byte
	if c.w.diff && e.Type == weir.Updated {
		if below, err = c.difference(e); err != nil {
			return err
		}
	}
	item := e.Item()
	at := now.Format("15:04:05.000")
	return c.sheet.row(c.sheet.cells(at, e.Type.String(), item.Namespace(), c.shown(item), more), below)
}

// shown returns an object's name for the table: like kubectl, only the name, or kind/name if the
// table shows several resources.
func (c *changes[T]) shown(item weir.Item[T]) string {
	if c.sheet.several {
		return c.name(item)
	}
	return item.Name()
}

// fit makes the columns wide enough for the names of all stored objects, and for the additional
// cells of the first row (first). It reads only names, which need no decoding.
func (c *changes[T]) fit(first []string) {
	var namespace, name string
	for item := range c.inf.Snapshot().Items() {
		if n := item.Namespace(); len(n) > len(namespace) {
			namespace = n
		}
		if n := c.shown(item); len(n) > len(name) {
			name = n
		}
	}
	c.sheet.fit(c.sheet.cells("15:04:05.000", weir.Updated.String(), namespace, name, first)...)
}

// name returns the object's name in kubectl's form: "pod/web-0", "deployment.apps/web".
func (c *changes[T]) name(item weir.Item[T]) string {
	kind := strings.ToLower(c.w.resource.Kind.Kind)
	if group := c.w.resource.Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + item.Name()
}

// changeLine is the output of -o json and yaml for each change, in the form of a WATCH event.
type changeLine struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (c *changes[T]) printEvent(e weir.Event[T]) error {
	text, err := c.text(e.Item())
	if err != nil {
		return err
	}
	return c.printDocument(changeLine{e.Type.String(), text})
}

// printDocument prints a value as one line of JSON, or as one document of a YAML stream.
func (c *changes[T]) printDocument(value any) error {
	if c.format.output == outputJSON {
		return json.NewEncoder(c.sheet).Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = c.sheet.Write(append([]byte("---\n"), text...))
	return err
}

// printItem prints an object in the form that -o selects. The form does not depend on the type of
// the event.
func (c *changes[T]) printItem(item weir.Item[T]) error {
	if c.format.output == outputName {
		_, err := fmt.Fprintln(c.sheet, c.name(item))
		return err
	}
	object, err := c.decoded(item)
	if err != nil {
		return err
	}
	if c.format.output == outputCustomColumns {
		cells, err := c.format.cells(object)
		if err != nil {
			return err
		}
		return c.sheet.row(cells, nil)
	}
	line, err := c.format.line(object)
	if err != nil {
		return err
	}
	_, err = c.sheet.Write(line)
	return err
}

// text returns the JSON of an object, including its apiVersion and kind. The informer must store
// objects as JSON.
func (c *changes[T]) text(item weir.Item[T]) ([]byte, error) {
	raw, err := item.AppendRaw(nil)
	if err != nil {
		return nil, err
	}
	kind := wire.TypeMeta{APIVersion: c.w.resource.GroupVersion().String(), Kind: c.w.resource.Kind.Kind}
	return wire.AppendObject(nil, wire.JSON, kind, raw), nil
}

// printOnce prints the output of --once.
func (c *changes[T]) printOnce(s syncSummary) error {
	switch c.format.output {
	case outputJSON, outputYAML:
		return c.printDocument(s.report())
	case outputName, outputJSONPath, outputCustomColumns:
		if err := c.fitCells(); err != nil {
			return err
		}
		for item := range c.inf.Snapshot().Items() {
			if err := c.printItem(item); err != nil {
				return fmt.Errorf("%s: %w", item.Key(), err)
			}
		}
		return nil
	}
	_, err := fmt.Fprintln(c.sheet, s)
	return err
}

// fitCells makes the columns of -o custom-columns wide enough for the stored objects. For other
// outputs it does nothing.
func (c *changes[T]) fitCells() error {
	if c.format.output != outputCustomColumns {
		return nil
	}
	c.sheet.fit(c.format.headers...)
	for item := range c.inf.Snapshot().Items() {
		object, err := c.decoded(item)
		if err != nil {
			return err
		}
		cells, err := c.format.cells(object)
		if err != nil {
			return fmt.Errorf("%s: %w", item.Key(), err)
		}
		c.sheet.fit(cells...)
	}
	return nil
}
