package humanize

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The limits of a line, in runes.
const (
	maxValue = 60
	maxLine  = 160
	// context is how much of the common start of two long texts is shown before their difference.
	context = 10
)

// Line returns a change as one line of at most limit runes; 0 is a limit that suits a file.
func (c Change) Line(limit int) string {
	if limit <= 0 {
		limit = maxLine
	}
	line := fmt.Sprintf("%c %s: ", c.Sign, c.Path)
	switch {
	case c.Hidden && c.Sign == '~':
		line += "(hidden), differs"
	case c.Hidden:
		line += "(hidden)"
	case c.Sign == '+':
		line += Cut(text(c.New), maxValue)
	case c.Sign == '-':
		line += Cut(text(c.Old), maxValue)
	default:
		before, after := apart(text(c.Old), text(c.New))
		line += Cut(before, maxValue) + " -> " + Cut(after, maxValue)
	}
	return Cut(line, limit)
}

// text formats a value for people, a string without quotes unless it would be ambiguous.
func text(value any) string {
	s, ok := value.(string)
	if !ok {
		raw, err := json.Marshal(value)
		if err != nil {
			return "(cannot be shown)" // a value that JSON cannot decode to
		}
		return string(raw)
	}
	quoted := strconv.Quote(s)
	if s == "" || json.Valid([]byte(s)) && !strings.ContainsAny(s[:1], "{[") || quoted != `"`+s+`"` ||
		strings.TrimSpace(s) != s || strings.Contains(s, " -> ") {
		return quoted
	}
	return s
}

// apart omits the common start of two texts if they would be cut off before they differ.
func apart(a, b string) (string, string) {
	if len([]rune(a)) <= maxValue && len([]rune(b)) <= maxValue {
		return a, b
	}
	x, y := []rune(a), []rune(b)
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	if same <= context {
		return a, b
	}
	return "…" + string(x[same-context:]), "…" + string(y[same-context:])
}

// Cut shortens a text to a number of runes.
func Cut(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}
