package figures

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Column is one of a table. What is wider than Width is not cut. A column without a width is left
// out.
type Column struct {
	Width int
	Left  bool // its cells stand to the left; else to the right
}

// Fit returns the columns that rows need: the first to the left, the others to the right.
func Fit(rows [][]string) []Column {
	var columns []Column
	for _, row := range rows {
		for i, text := range row {
			if i == len(columns) {
				columns = append(columns, Column{Left: i == 0})
			}
			columns[i].Width = max(columns[i].Width, utf8.RuneCountInString(text))
		}
	}
	return columns
}

// Write writes the rows of a table.
func Write(w io.Writer, columns []Column, rows ...[]string) error {
	for _, row := range rows {
		if _, err := io.WriteString(w, Line(columns, row)); err != nil {
			return err
		}
	}
	return nil
}

// Line returns a row of a table, without spaces at its end.
func Line(columns []Column, cells []string) string {
	var line strings.Builder
	for i, text := range cells {
		c := columns[i]
		if c.Width == 0 {
			continue
		}
		if i > 0 {
			line.WriteString("  ")
		}
		pad := strings.Repeat(" ", max(c.Width-utf8.RuneCountInString(text), 0))
		if c.Left {
			line.WriteString(text + pad)
		} else {
			line.WriteString(pad + text)
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}
