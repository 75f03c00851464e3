package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/internal/tools/chart"
)

// demo returns the output of weir doctor --demo with further arguments.
func demo(t *testing.T, args ...string) string {
	t.Helper()
	var out, notes bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"doctor", "--demo"}, args...))
	root.SetOut(&out)
	root.SetErr(&notes)
	check.NoError(t, root.ExecuteContext(t.Context()))
	return out.String()
}

// TestDemoPicture checks that the picture at the start of docs/howto/doctor.md shows the demo's
// report: the start of the text, and the last chart of the page. With -rewrite it writes the
// picture.
func TestDemoPicture(t *testing.T) {
	const line, margin, columns = 17.0, 20.0, 96
	text, _, found := strings.Cut(demo(t), "\n2. ")
	_, before, _ := strings.Cut(demo(t, "-o", "html"), "<h2>The whole load</h2>")
	before, _, cut := strings.Cut(before, "<table>")
	at := strings.LastIndex(before, "<svg ")
	if !found || !cut || at < 0 {
		t.Fatal("the report has no second finding, or no chart")
	}
	var chartHeight float64
	_, frame, _ := strings.Cut(before[at:], `viewBox="`)
	if _, err := fmt.Sscanf(frame, "0 0 760 %g", &chartHeight); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split("$ weir doctor --demo\n"+text+"\n⋮", "\n")
	textHeight := margin + line*float64(len(lines)) + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 %g" role="img" aria-label="The report of weir doctor --demo: %s">`+"\n%s\n",
		textHeight+chartHeight+margin, html.EscapeString(strings.Join(strings.Fields(lines[1]+" "+lines[2]), " ")), chart.Style)
	fmt.Fprintf(&b, `<rect class="b" width="800" height="%g"/>`+"\n", textHeight+chartHeight+margin)
	for i, text := range lines {
		weight := "normal"
		if i == 1 || i == 2 {
			weight = "bold"
		}
		fmt.Fprintf(&b, `<text class="t" x="%g" y="%g" font-family="ui-monospace,monospace" font-size="13" font-weight="%s" xml:space="preserve">%s</text>`+"\n",
			margin, margin+line*float64(i+1), weight, html.EscapeString(humanize.Cut(text, columns)))
	}
	nested := strings.Replace(before[at:], "<svg ", fmt.Sprintf(`<svg x="%g" y="%g" width="760" height="%g" `, margin, textHeight, chartHeight), 1)
	b.WriteString(strings.TrimSpace(nested) + "\n</svg>\n")
	golden.File(t, "../../docs/howto/doctor-demo.svg", b.String())
}
