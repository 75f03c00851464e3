package lab

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// All text in a chart is escaped.
	"chart": func(i Replayed) template.HTML { return template.HTML(i.Chart()) },
	"style": func() template.CSS { return template.CSS(chart.PageStyle()) },
	"count": func(n int) string { return humanize.Count(int64(n)) },
}).Parse(pageText))

// WritePage writes the report as a page that needs nothing else.
func (r *Report) WritePage(w io.Writer) error { return pageTemplate.Execute(w, r) }

// Columns returns the labels of the figures in the incident's table.
func (i Replayed) Columns() (labels []string) {
	for _, f := range i.figures {
		labels = append(labels, f.Label)
	}
	return labels
}

// Rows returns the rows of the incident's table, one for each side: its label, and its figures.
func (i Replayed) Rows() (rows [][]string) {
	for _, s := range i.Sides {
		row := []string{s.Label}
		for _, f := range i.figures {
			row = append(row, s.Figures.Cell(f.Key, f.Unit))
		}
		rows = append(rows, row)
	}
	return rows
}
