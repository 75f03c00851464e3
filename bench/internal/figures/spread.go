package figures

import (
	"slices"
	"strings"
)

// Spread is the smallest and the largest of each value over several runs, by name.
type Spread map[string][2]float64

// SpreadOf returns the spread of each value over all runs that have it.
func SpreadOf(runs []Values) Spread {
	s := Spread{}
	for _, run := range runs {
		for key, value := range run {
			least, most := value, value
			if have, ok := s[key]; ok {
				least, most = min(have[0], value), max(have[1], value)
			}
			s[key] = [2]float64{least, most}
		}
	}
	return s
}

// Cell writes a spread for a table, the unit once where both ends have it: "71.2…78.9 MB". It is
// empty where both ends read the same, and where there is none.
func (s Spread) Cell(key string, u Unit) string {
	ends, ok := s[key]
	if !ok {
		return ""
	}
	least, most := u.Text(ends[0]), u.Text(ends[1])
	if least == most {
		return ""
	}
	if a, b := strings.Fields(least), strings.Fields(most); len(a) == 2 && slices.Equal(a[1:], b[1:]) {
		least = a[0]
	}
	return least + "…" + most
}
