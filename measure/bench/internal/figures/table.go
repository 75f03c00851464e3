package figures

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Column is a column of a table. A cell that is wider than Width is not cut off. A column whose
// Width is 0 is not written.
type Column struct {
	Width int
	Left  bool // its cells are aligned to the left; otherwise to the right
}

// Fit returns columns that are as wide as their widest cell in rows. The first column is aligned to
// the left, the other columns to the right.
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

// Line returns a row of a table as a line, without spaces at its end.
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
