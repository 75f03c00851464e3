package main

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestTable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		fit   []string
		rows  [][]string
		want  string
	}{
		{
			name: "columns widen and stay wide",
			rows: [][]string{{"EVENT", "NAME", "NODE"}, {"ADDED", "web-0", "n1"}, {"MODIFIED", "a-long-name", "n2"}, {"ADDED", "b", ""}},
			want: `
EVENT  NAME  NODE
ADDED  web-0  n1
MODIFIED  a-long-name  n2
ADDED     b
`,
		},
		{
			name: "the widest cells are announced",
			fit:  []string{"MODIFIED", "a-long-name"},
			rows: [][]string{{"EVENT", "NAME", "NODE"}, {"ADDED", "web-0", "n1"}, {"MODIFIED", "a-long-name", "n2"}},
			want: `
EVENT     NAME         NODE
ADDED     web-0        n1
MODIFIED  a-long-name  n2
`,
		},
		{
			name: "what moves a terminal's cursor is not passed on",
			fit:  []string{"\x1b\x1b\x1b\x1b"},
			rows: [][]string{{"a\x1b[2J", "b\tc\n", "\u202ed\u009b1m"}, {"e", "f", "g"}},
			want: `
a?[2J  b?c?  ?d?1m
e      f     g
`,
		},
		{
			name:  "lines are cut to the limit",
			limit: 12,
			rows:  [][]string{{"ADDED", "exact"}, {"ADDED", "web-00000"}, {"ÄDDED", "wéb-00000"}},
			want: `
ADDED  exact
ADDED  web-…
ÄDDED  wéb-…
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			p := &table{out: &b, limit: tc.limit}
			p.fit(tc.fit...)
			for _, row := range tc.rows {
				check.NoError(t, p.row(row...))
			}
			check.Equal(t, "\n"+b.String(), tc.want)
		})
	}
}
