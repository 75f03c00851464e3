package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/internal/tools/command"
)

// markup is a piece of HTML, such as a picture, in which all text is already escaped.
type markup string

// htmlWriter writes HTML. It escapes each argument except markup, after it has replaced the
// argument's unprintable characters.
//
// It does not use html/template, because a template may call any exported method. The linker would
// therefore keep all exported methods, and weir would be 8 MB larger.
type htmlWriter struct{ bytes.Buffer }

// add appends HTML. It replaces each %s with the next argument.
func (w *htmlWriter) add(format string, args ...any) {
	for i, a := range args {
		if m, ok := a.(markup); ok {
			args[i] = string(m)
		} else {
			args[i] = html.EscapeString(command.Printable(fmt.Sprint(a)))
		}
	}
	fmt.Fprintf(&w.Buffer, format, args...)
}

// addTable appends a table.
func (w *htmlWriter) addTable(head []string, rows [][]string) {
	w.add("<table>\n<tr>")
	for _, cell := range head {
		w.add("<th>%s</th>", cell)
	}
	w.add("</tr>\n")
	for _, row := range rows {
		w.add("<tr>")
		for _, cell := range row {
			w.add("<td>%s</td>", cell)
		}
		w.add("</tr>\n")
	}
	w.add("</table>")
}

// pageHead is the start of a page. It forbids scripts, because clients choose their names and may
// put scripts into them.
const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>weir doctor</title>
<style>
%std:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 15em }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .5em 1em; border-left: 3px solid var(--line) }
li { margin-bottom: 2em }
</style>
`

// write writes the page.
func (p *doctorPage) write(to io.Writer) error {
	w := &htmlWriter{}
	w.add(pageHead, markup(chart.PageStyle()))
	w.add("<h1>%s</h1>\n<p><strong>%s</strong></p>\n", p.Title, p.Headline)
	p.addFindings(w)
	for _, text := range p.Skipped {
		w.add("<p class=\"note\">%s</p>\n", text)
	}
	w.add("<h2>The whole load</h2>\n<p>%s</p>\n", p.Summary)
	for _, picture := range p.Charts {
		w.add("%s", picture)
	}
	w.add("\n")
	w.addTable(p.Table.Head, p.Table.Rows)
	w.add("\n")
	if t := p.Restart; t != nil {
		w.add("<h2>If all clients restarted at the same time</h2>\n<p>%s</p>\n%s", t.Text, t.Chart)
		if len(t.Rows) > 0 {
			w.addTable(t.Head, t.Rows)
		}
		w.add("\n")
	}
	if len(p.Sizes) > 0 {
		p.addSizes(w)
	}
	if p.Note != "" {
		w.add("<p class=\"note\">%s</p>\n", p.Note)
	}
	w.add("<footer>Made by <code>weir doctor</code>.</footer>\n</html>\n")
	_, err := w.WriteTo(to)
	return err
}

// addFindings appends the section about the findings.
func (p *doctorPage) addFindings(w *htmlWriter) {
	w.add("<h2>What stands out</h2>\n")
	if len(p.Findings) == 0 {
		w.add("<p>%s</p>\n", p.Nothing)
		return
	}
	w.add("<ol>\n")
	for _, f := range p.Findings {
		w.add("<li>\n<p><strong>%s</strong>: %s</p>\n<p>Remedy: %s.", f.Kind, f.Sentence, f.Remedy)
		if f.Incident != "" {
			w.add(" <a href=\"%s\">%s</a> explains it.", incidentURL(f.Incident), f.Incident)
		}
		w.add("</p>\n")
		if f.Change != "" {
			w.add("<pre>%s</pre>\n", markup(html.EscapeString(f.Change))) // markup keeps the line breaks
		}
		if f.WhatIf != nil {
			w.add("%s", f.WhatIf.Chart)
			w.addTable(f.WhatIf.Head, f.WhatIf.Rows)
			w.add("\n")
		}
		w.add("</li>\n")
	}
	w.add("</ol>\n")
	if p.Covered != "" {
		w.add("<p>%s</p>\n", p.Covered)
	}
}

// addSizes appends the section about the sizes that the predictions use.
func (p *doctorPage) addSizes(w *htmlWriter) {
	var sizes, checks [][]string
	for _, s := range p.Sizes {
		sizes = append(sizes, []string{s.Resource, humanize.Count(s.Objects), fmt.Sprint(s.ObjectsFrom), humanize.Bytes(int64(s.Bytes)), fmt.Sprint(s.BytesFrom)})
	}
	w.add("<h2>Sources of this report</h2>\n")
	w.addTable([]string{"resource", "objects", "", "of bytes", ""}, sizes)
	w.add("\n")
	if p.Low != "" {
		w.add("<p>%s</p>\n", p.Low)
	}
	if p.Model == nil {
		return
	}
	m := p.Model.Measured
	w.add(`<p>A model that was measured on %s with %s pods of
%s, %s CPUs (%s), on %s, predicts costs. The same run replayed incidents;
the predictions of their costs were off by these factors:</p>
`, m.Server, humanize.Count(int64(m.Objects)), humanize.Bytes(int64(m.ObjectBytes)), humanize.Count(int64(m.CPUs)), m.CPU, m.At.Format(time.DateOnly))
	for _, c := range p.Model.Checks {
		checks = append(checks, []string{c.Incident + ", " + c.Way, fmt.Sprint(c.Figure), humanize.Number(c.Off())})
	}
	w.addTable([]string{"incident", "figure", "off by"}, checks)
	w.add("\n")
}
