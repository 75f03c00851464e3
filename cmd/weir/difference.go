package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

// maxDifferences limits the number of lines per change: a ConfigMap can have thousands of keys.
const maxDifferences = 100

// difference returns the lines that show how an event changed an object.
func (c *changes[T]) difference(e weir.Event[T]) ([]byte, error) {
	before, err := c.decoded(e.OldItem())
	if err != nil {
		return nil, err
	}
	after, err := c.decoded(e.Item())
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	width, _ := c.sheet.size()
	writeDiff(&text, humanize.Diff(before, after, humanize.DiffOptions{}), width, c.sheet.colour)
	return text.Bytes(), nil
}

// decoded returns an object as decoded JSON.
func (c *changes[T]) decoded(item weir.Item[T]) (map[string]any, error) {
	text, err := c.text(item)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("decode %s: %w", item.Key(), err)
	}
	return object, nil
}

// indent precedes each line of a change, below the row of its event.
const indent = "    "

// writeDiff writes each change as a line of at most width runes. If width is 0, as for a file,
// lines have no limit.
func writeDiff(out *bytes.Buffer, changed []humanize.Change, width int, colour bool) {
	if len(changed) == 0 {
		out.WriteString(indent + "nothing but the resourceVersion and managedFields\n")
	}
	for _, change := range changed[:min(len(changed), maxDifferences)] {
		limit := 0
		if width > 0 {
			limit = max(width-len(indent), 20)
		}
		line := command.Printable(change.Line(limit))
		if colour {
			line = colours[change.Sign] + line + plain
		}
		out.WriteString(indent + line + "\n")
	}
	if more := len(changed) - maxDifferences; more > 0 {
		fmt.Fprintf(out, "%s… and %s\n", indent, plural(int64(more), "more change"))
	}
}

// The colours of a diff, as in git.
var colours = map[byte]string{'+': "\x1b[32m", '-': "\x1b[31m", '~': "\x1b[33m"}

const plain = "\x1b[0m"

// coloured reports whether out is a terminal and its user has not turned colours off.
func coloured(out io.Writer) bool {
	_, ok := terminal(out)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
