package clientgo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/testing/check"
)

// comparisonScript runs a comparison with the steps of a text, separated by spaces:
//
//	w:k@5     Weir delivers version 5 of key k; c: client-go does; k@5=x gives it another content
//	w:-k@6    Weir delivers the deletion of k at 6
//	w>7       Weir's informer has received everything up to 7 (at the start: everything)
//	w:busy    Weir's handler is busy from now on; w:idle ends that
//	+40s      time passes
//
// It returns the differences, each as the side, the kind and the key.
func comparisonScript(t *testing.T, c *comparison, script string) (found []string) {
	t.Helper()
	start := time.Unix(1000, 0)
	now := start
	state := [2]progress{{1000, true}, {1000, true}}
	for step := range strings.FieldsSeq(script) {
		if step[0] == '+' {
			d, err := time.ParseDuration(step[1:])
			check.NoError(t, err)
			for end := now.Add(d); now.Before(end); {
				now = now.Add(judgeEvery)
				c.judge(now, state, func(key, kind string, of side, _ *openKey) {
					found = append(found, fmt.Sprintf("%s %s %s", of, kind, key))
				})
			}
			continue
		}
		s := weirSide
		if step[0] == 'c' {
			s = clientGoSide
		}
		rest := step[2:]
		switch {
		case step[1] == '>':
			_, err := fmt.Sscan(rest, &state[s].reached)
			check.NoError(t, err)
		case rest == "busy" || rest == "idle":
			state[s].idle = rest == "idle"
		default:
			rest, deleted := strings.CutPrefix(rest, "-")
			key, rest, _ := strings.Cut(rest, "@")
			version, content, _ := strings.Cut(rest, "=")
			var rv uint64
			_, err := fmt.Sscan(version, &rv)
			check.NoError(t, err)
			v := sighting{position(rv << 1), rv + 1, now}
			if deleted {
				v.at, v.hash = v.at|1, 0
			}
			if content != "" {
				v.hash = 1 << 40
			}
			c.observe(s, key, v, func() []string { return nil })
		}
	}
	return found
}

// TestComparison checks which differences a comparison reports, and when.
func TestComparison(t *testing.T) {
	open := map[string]int{"not within 30 s": 1, "an informer that has not synced": 1, "starts, and the other lists": 1, "a restore that one does not see": 1}
	for name, test := range map[string]struct{ script, want string }{
		"equal":                             {"c:a@1 w:a@1 c:a@2 w:a@2 w:-a@3 c:-a@3 +20m", ""},
		"one skips versions":                {"c:a@1 w:a@1 c:a@2 c:a@3 c:-a@4 c:a@5 w:a@5 +20m", ""},
		"the other skips versions":          {"c:a@1 w:a@1 w:a@2 w:a@3 w:-a@4 w:a@5 c:a@5 +20m", ""},
		"a tombstone":                       {"c:a@1 w:a@1 c:-a@4 w:-a@1 +20m", ""},
		"a tombstone, and the object again": {"c:a@1 w:a@1 c:-a@4 c:a@6 w:-a@1 w:a@6 +20m", ""},
		"only one saw the object":           {"c:a@1 c:-a@2 +20m", ""},
		"a resync":                          {"c:a@1 w:a@1 c:a@1 w:a@1 +20m", ""},
		"a lag of 20 s":                     {"c:a@1 w:a@1 +1m c:a@2 +20s w:a@2 +20m", ""},
		"a hot key":                         {"c:a@1 w:a@1 +1m " + hotKey(500) + " +20m", ""},
		"lost event":                        {"c:a@1 w:a@1 +1m c:a@2 +40s", "weir missed version a"},
		"lost event of client-go":           {"c:a@1 w:a@1 +1m w:a@2 +40s", "client-go missed version a"},
		"lost object":                       {"+1m c:a@1 +40s", "weir missed version a"},
		"a tombstone before a relist":       {"c:a@1 w:a@1 +1m w:-a@1 +4m c:-a@3 +20m", ""},
		"a tombstone, then newer":           {"c:a@1 w:a@1 +1m w:-a@1 w:a@5 +4m c:a@5 +20m", ""},
		"skips an object, then lags":        {"w>5 +1m c:a@2 c:-a@3 +20s c:a@9 +2m w>9 w:a@9 +20m", ""},
		"skips an object, then misses it":   {"w>5 +1m c:a@2 c:-a@3 +20s c:a@9 +1m w>9 +2m", "weir missed version a"},
		"a missed tombstone":                {"c:a@1 w:a@1 +1m c:-a@1 +6m", "weir missed deletion a"},
		"missed deletion":                   {"c:a@1 w:a@1 +1m c:-a@2 +40s", "weir missed deletion a"},
		"missed deletion of client-go":      {"c:a@1 w:a@1 +1m w:-a@2 +40s", "client-go missed deletion a"},
		"is reported once":                  {"c:a@1 w:a@1 +1m c:a@2 +1h", "weir missed version a"},
		"not within 30 s":                   {"c:a@1 w:a@1 +1m c:a@2 +20s", ""},
		"other content":                     {"c:a@1 w:a@1=x +40s", "weir content a"},
		"other content, not the newest":     {"c:a@1 w:a@1=x c:a@2 w:a@2 +40s", "weir content a"},
		"other content later":               {"c:a@1 c:a@2 c:a@3 w:a@2=x +40s", "weir content a"},
		"reordered":                         {"c:a@1 c:a@2 w:a@2 w:a@1 +1m", "weir order a"},
		"reordered, then newer":             {"c:a@1 c:a@2 w:a@2 w:a@1 c:a@3 w:a@3 +1m", "weir order a"},
		"reordered by client-go":            {"w:a@1 w:a@2 c:a@2 c:a@1 +1m", "client-go order a"},
		"a restored server":                 {"c:a@1 w:a@1 c:a@9 w:a@9 c>5 c:a@5 +20s w>5 w:a@5 +20m", ""},
		"a restored server, other content":  {"c:a@9 w:a@9 c>5 c:a@5 c:a@9=x +20s w>5 w:a@5 w:a@9=x +20m", ""},
		"a restore that one does not see":   {"c:a@9 w:a@9 c>5 c:a@5 +4m", ""},
		"a restore that one never sees":     {"c:a@9 w:a@9 c>5 c:a@5 +6m", "client-go order a"},
		"an informer that lags":             {"c:a@1 w:a@1 w>1 +1m c:a@2 +4m w:a@2 +20m", ""},
		"an informer that stalls":           {"c:a@1 w:a@1 w>1 +1m c:a@2 +6m", "weir missed version a"},
		"an informer that has not synced":   {"w>0 c:a@1 +20m", ""},
		"starts after a deletion":           {"c>5 w>9 +1m c:a@3 +4m c:-a@6 c>9 +20m", ""},
		"starts at a later version":         {"c>5 w>9 +1m c:a@3 w:a@8 +4m c:a@5 c:a@8 c>9 +20m", ""},
		"starts after a new object":         {"c>5 w>9 +1m w:a@8 +4m c:a@8 c>9 +20m", ""},
		"skips an object that it received":  {"c>5 w>5 +1m c:a@5 w>9 +1m c:-a@6 c>9 +20m", ""},
		"lacks an object that exists again": {"c>5 w>9 +1m c:a@3 +20s c:a@12 c>13 +4m w>13 w:a@12 +20m", ""},
		"lacks an object":                   {"c>5 w>9 +1m c:a@3 +1m c>9 +1m", "weir missed version a"},
		"lacks an object of one that lags":  {"c>5 w>9 +1m c:a@3 +6m", "weir missed version a"},
		"starts, and the other lists":       {"c>0 w>9 +1m c:a@3 +20m", ""},
		"a busy handler":                    {"c:a@1 w:a@1 +1m w:busy c:a@2 +20m w:a@2 w:idle +20m", ""},
		"a handler that was busy":           {"c:a@1 w:a@1 +1m w:busy c:a@2 +20m w:idle +1m", "weir missed version a"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComparison(&engine.Comparison{})
			check.Equal(t, strings.Join(comparisonScript(t, c, test.script), ", "), test.want, "differences")
			check.Equal(t, len(c.open), open[name], "open keys")
		})
	}
}

// hotKey returns a script in which Weir follows client-go at a distance of 5 versions, for n
// seconds.
func hotKey(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c:a@%d ", 100+i)
		if i >= 5 {
			fmt.Fprintf(&b, "w:a@%d ", 100+i-5)
		}
		if i%10 == 0 {
			b.WriteString("+10s ")
		}
	}
	for i := n - 5; i < n; i++ {
		fmt.Fprintf(&b, "w:a@%d ", 100+i)
	}
	return b.String()
}

// TestComparisonBound checks that a comparison keeps a limited number of versions while one side
// lags, and still matches the newest version.
func TestComparisonBound(t *testing.T) {
	counts := &engine.Comparison{}
	c := newComparison(counts)
	for n := range 1000 {
		c.observe(clientGoSide, "a", sighting{at: position(2*n + 2), hash: 1}, nil)
	}
	check.Equal(t, len(c.open["a"].ahead), maxAhead, "kept versions")
	check.Equal(t, counts.Unjudged.Load(), 1000-maxAhead, "dropped versions")
	c.observe(weirSide, "a", sighting{at: 2000, hash: 1}, nil)
	check.Equal(t, len(c.open), 0, "open keys")
	check.Equal(t, counts.Objects.Load(), 1, "compared versions")
}
