package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

func newChanges[T weir.Object](w *watch, inf *weir.Informer[T]) *changes[T] {
	return &changes[T]{w: w, inf: inf, begun: make(chan struct{}), sheet: w.sheet, format: w.format}
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
		err = c.printEvent(e.Type, e.Item())
	case outputName, outputJSONPath, outputCustomColumns:
		err = c.printItem(e.Item())
	default:
		err = c.printRow(e)
	}
	if ctx.Err() == nil {
		_ = c.complain(e.Key(), err) // the sheet reports a failed write
	}
}

// complain prints the error of an object, such as a value that cannot be read. It returns errors
// that end the command: that of a failed write to stdout, and any with --once.
func (c *changes[T]) complain(key string, err error) error {
	switch {
	case err == nil || errors.As(err, new(writeError)):
		return err
	case c.w.once:
		return fmt.Errorf("%s: %w", key, err)
	}
	fmt.Fprintf(c.w.err, "%s: %s\n", key, command.OneLine(err))
	return nil
}

// summary returns the number of stored objects, and the number of changes of each type.
func (c *changes[T]) summary() string {
	a, m, d := c.added.Load(), c.modified.Load(), c.deleted.Load()
	return fmt.Sprintf("%s, %s (%s added, %s modified, %s deleted)", plural(int64(c.inf.Len()), "object"),
		plural(a+m+d, "change"), humanize.Count(a), humanize.Count(m), humanize.Count(d))
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
	old := more
	if e.Type == weir.Updated {
		if before, err := c.more(e.OldItem(), now); err == nil {
			old = before
		}
	}
	cells := c.sheet.cells(item.Namespace(), c.shown(item), more)
	cells = slices.Concat([]string{now.Format(clock), e.Type.String()}, cells)
	return c.sheet.row(c.sheet.changes, cells, slices.Concat(cells[:len(cells)-len(more)], old), below)
}

// shown returns an object's name for the table: like kubectl, only the name, or kind/name if the
// table shows several resources.
func (c *changes[T]) shown(item weir.Item[T]) string {
	if c.sheet.watches > 1 {
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
	cells := c.sheet.cells(namespace, name, first)
	c.sheet.fit(c.sheet.changes, slices.Concat([]string{clock, weir.Updated.String()}, cells)...)
}

// clock is the format of the time of a change.
const clock = "15:04:05.000"

// name returns the object's name in kubectl's form: "pod/web-0", "deployment.apps/web".
func (c *changes[T]) name(item weir.Item[T]) string {
	kind := strings.ToLower(c.w.resource.Kind.Kind)
	if group := c.w.resource.Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + item.Name()
}

// changeLine is the output of -o json and yaml for each change, in the form of a WATCH event. An
// object that existed before is of type ADDED.
type changeLine struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (c *changes[T]) printEvent(event weir.EventType, item weir.Item[T]) error {
	text, err := c.text(item)
	if err != nil {
		return err
	}
	if c.w.once {
		return c.printDocument(json.RawMessage(text))
	}
	return c.printDocument(changeLine{event.String(), text})
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
	if c.format.output == outputCustomColumns {
		cells, err := c.cells(item)
		if err != nil {
			return err
		}
		return c.sheet.row(c.sheet.changes, cells, nil, nil)
	}
	object, err := c.decoded(item)
	if err != nil {
		return err
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
