package servers

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// samples are values of a page of metrics, by name and labels as they stand there:
// process_cpu_seconds_total, or weir_proxy_upstream_requests_total{for="forwarded"}.
type samples map[string]float64

// maxMetricLine bounds a line of a page of metrics, in bytes.
const maxMetricLine = 1 << 20

// parseMetrics reads a page in Prometheus' text format and keeps the metrics of the given names,
// which are a few out of thousands. A line that is not a sample is an error.
func parseMetrics(r io.Reader, names ...string) (samples, error) {
	out := samples{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		end := seriesEnd(line)
		series, rest := line[:end], strings.Fields(line[end:])
		if name, _, _ := strings.Cut(series, "{"); name == "" || len(rest) == 0 || len(rest) > 2 {
			return nil, fmt.Errorf("metrics: no sample: %.80q", line)
		} else if !slices.Contains(names, name) {
			continue
		}
		value, err := strconv.ParseFloat(rest[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: no number: %.80q", line)
		}
		out[series] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return out, nil
}

// sum returns the sum of the values of a metric, whatever its labels.
func (s samples) sum(name string) (sum float64) {
	for series, value := range s {
		if of, _, _ := strings.Cut(series, "{"); of == name {
			sum += value
		}
	}
	return sum
}

// seriesEnd returns where the name and the labels of a line end. A label's value may contain
// anything.
func seriesEnd(line string) int {
	quoted, braced := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			braced = true
		case c == '}':
			return i + 1
		case !braced && (c == ' ' || c == '\t'):
			return i
		}
	}
	return len(line)
}
