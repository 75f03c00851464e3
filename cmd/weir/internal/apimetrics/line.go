package apimetrics

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxLine bounds a line of /metrics. Those of the metrics that are read are below 1 KB.
const maxLine = 1 << 20

// labels are those of one metric, by name.
type labels map[string]string

func (l labels) get(name string) string { return l[name] }

var errLabels = errors.New("malformed labels")

// nameOf returns the name of the metric that a line of Prometheus' text format begins with.
func nameOf(line []byte) string {
	for i, c := range line {
		if c == '{' || blank(c) {
			return string(line[:i])
		}
	}
	return ""
}

// parseLine reads what follows the name on a line of Prometheus' text format: labels, a value and
// the time of it, which a server tells of nothing that is read here. Prometheus' own parser gives
// the same; tests compare them. It would add a twelfth to what weir weighs, protocol buffers that
// describe themselves, for the lines that a few metrics have.
func parseLine(rest string) (l labels, v float64, err error) {
	rest = trim(rest)
	if inside, ok := strings.CutPrefix(rest, "{"); ok {
		if l, rest, err = parseLabels(inside); err != nil {
			return nil, 0, err
		}
	}
	fields := strings.FieldsFunc(rest, func(r rune) bool { return r < 0x80 && blank(byte(r)) })
	if len(fields) == 0 || len(fields) > 2 {
		return nil, 0, fmt.Errorf("expected float as value, got %.80q", rest)
	}
	v, err = strconv.ParseFloat(fields[0], 64)
	if err != nil || strings.ContainsAny(fields[0], "pP_") { // which only Go writes
		return nil, 0, fmt.Errorf("expected float as value, got %.80q", fields[0])
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseInt(fields[1], 10, 64); err != nil {
			return nil, 0, fmt.Errorf("expected integer as timestamp, got %.80q", fields[1])
		}
	}
	return l, v, nil
}

// parseLabels reads labels behind their opening brace, and returns what follows the closing one.
func parseLabels(s string) (l labels, rest string, err error) {
	l = labels{}
	for {
		s = trim(s)
		if rest, ok := strings.CutPrefix(s, "}"); ok {
			return l, rest, nil
		}
		name, after, ok := strings.Cut(s, "=")
		name = trim(name)
		if _, twice := l[name]; !ok || name == "" || twice {
			return nil, "", errLabels
		}
		value, after, err := parseValue(trim(after))
		if err != nil {
			return nil, "", err
		}
		l[name] = value
		after = trim(after)
		s, ok = strings.CutPrefix(after, ",")
		if !ok && !strings.HasPrefix(after, "}") {
			return nil, "", errLabels
		}
	}
}

// parseValue reads a quoted value of a label, and returns what follows it.
func parseValue(s string) (value, rest string, err error) {
	s, ok := strings.CutPrefix(s, `"`)
	if !ok {
		return "", "", errLabels
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '"' {
			return b.String(), s[i+1:], nil
		}
		if c == '\\' {
			i++
			if i == len(s) {
				break
			}
			switch c = s[i]; c {
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", "", errLabels
			}
		}
		b.WriteByte(c)
	}
	return "", "", errLabels
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func trim(s string) string { return strings.Trim(s, " \t") }
