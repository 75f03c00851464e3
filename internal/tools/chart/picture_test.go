package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// element is an element of a picture, with its text.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Inner   []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (e element) number(name string, other float64) float64 {
	if v, err := strconv.ParseFloat(e.attr(name), 64); err == nil {
		return v
	}
	return other
}

// box is the place of a text. Its width is that in DejaVu Sans, which is wider than most fonts.
type box struct {
	left, right, top, bottom float64
	text                     string
}

func boxOf(e element) box {
	size, each := e.number("font-size", 12), 0.58
	if e.attr("font-weight") == "600" {
		each = 0.63
	}
	x, y, long := e.number("x", 0), e.number("y", 0), each*size*float64(len([]rune(e.Text)))
	switch e.attr("text-anchor") {
	case "end":
		x -= long
	case "middle":
		x -= long / 2
	}
	return box{x, x + long, y - 0.8*size, y + 0.22*size, e.Text}
}

func (b box) overlaps(other box) bool {
	return b.left < other.right && other.left < b.right && b.top < other.bottom && other.top < b.bottom
}

// checkPicture checks that a picture is valid XML with a title, that all texts are inside its frame
// and do not overlap, that texts and lines have the contrast of WCAG AA in both colour schemes, and
// that lines of different colours have different dashes.
func checkPicture(t *testing.T, svg string) {
	t.Helper()
	var root element
	if err := xml.Unmarshal([]byte(svg), &root); err != nil {
		t.Fatalf("%v:\n%s", err, svg)
	}
	var wide, high float64
	if _, err := fmt.Sscanf(root.attr("viewBox"), "0 0 %g %g", &wide, &high); err != nil {
		t.Fatalf("frame %q: %v", root.attr("viewBox"), err)
	}
	if title := root.Inner[0]; title.XMLName.Local != "title" || title.Text == "" {
		t.Errorf("starts with %+v, not with a title", title)
	}
	schemes := schemesOf(t, svg)
	var boxes []box
	dashes := map[string]string{}
	for _, e := range root.Inner {
		class := e.attr("class")
		least := 3.0
		switch e.XMLName.Local {
		case "text":
			least = 4.5
			one := boxOf(e)
			for _, other := range boxes {
				if one.overlaps(other) {
					t.Errorf("%+v overlaps %+v", one, other)
				}
			}
			if boxes = append(boxes, one); one.left < 0 || one.right > wide || one.top < 0 || one.bottom > high {
				t.Errorf("%+v leaves the frame %v × %v", one, wide, high)
			}
		case "path":
			if dash := e.attr("stroke-dasharray"); dash != "" {
				for other, has := range dashes {
					if other != class && has == dash {
						t.Errorf("%s and %s have the same dashes", class, other)
					}
				}
				dashes[class] = dash
			}
		case "line": // only of the grid, which repeats what the numbers say
			continue
		}
		if class == "" || class == "b" {
			continue
		}
		for i, colours := range schemes {
			if ratio := contrast(colours[class], colours["b"]); ratio < least {
				t.Errorf("class %q: contrast %.2f in scheme %d", class, ratio, i)
			}
		}
	}
	if outside := regexp.MustCompile(`(?s)</style>.*#[0-9a-f]{3}`).FindString(svg); outside != "" {
		t.Error("a colour is not in the style sheet")
	}
}

// schemesOf returns the colour of each class, in a light and in a dark scheme.
func schemesOf(t *testing.T, svg string) (schemes [2]map[string]string) {
	t.Helper()
	_, css, _ := strings.Cut(svg, "<style>")
	css, _, _ = strings.Cut(css, "</style>")
	light, dark, ok := strings.Cut(css, "@media(prefers-color-scheme:dark)")
	if !ok {
		t.Fatal("no dark scheme")
	}
	for i, rules := range []string{light, dark} {
		schemes[i] = map[string]string{}
		for _, m := range regexp.MustCompile(`\.(\w+)\{(?:fill|color|stroke):#([0-9a-f]+)\}`).FindAllStringSubmatch(rules, -1) {
			schemes[i][m[1]] = m[2]
		}
	}
	return schemes
}

// contrast returns the contrast of two colours as WCAG 2.2 defines it, or 0 if one has no colour.
func contrast(a, b string) float64 {
	luminance := func(colour string) float64 {
		if len(colour) == 3 {
			colour = strings.Repeat(colour[:1], 2) + strings.Repeat(colour[1:2], 2) + strings.Repeat(colour[2:], 2)
		}
		n, err := strconv.ParseUint(colour, 16, 32)
		if err != nil {
			return math.NaN()
		}
		var sum float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(n>>(16-8*i)&255) / 255
			if v <= 0.04045 {
				sum += weight * v / 12.92
			} else {
				sum += weight * math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		return sum
	}
	la, lb := luminance(a), luminance(b)
	if math.IsNaN(la + lb) {
		return 0
	}
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func TestContrast(t *testing.T) {
	check.Equal(t, contrast("000", "ffffff"), 21.)
	check.Equal(t, fmt.Sprintf("%.2f", contrast("777777", "fff")), "4.48") // the known nearest miss
	check.Equal(t, contrast("", "fff"), 0.)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// long is a text that is wrapped, or cut.
var long = strings.Repeat("WATCHes ", 30)

// TestPictures checks pictures with long texts, and with one value, equal values and no values.
func TestPictures(t *testing.T) {
	c := Chart{Title: long, Unit: number, Values: "resident memory, " + long, Source: long}
	var equal []Line
	for i := range 12 {
		equal = append(equal, NewLine(strings.Repeat("M", i)+long, 1, []float64{1, 1}))
	}
	steps := []int{10, 100, 1000, 10_000}
	panel := func(values ...float64) Panel {
		return Panel{"receipt to last handler, p99", number, [][]float64{values, {0, 0, 1, 1}, {2, 2, 2, 3e6}}}
	}
	for name, svg := range map[string]string{
		"equal":   c.Lines(equal...),
		"single":  c.Lines(NewLine("a", 1, []float64{5})),
		"nothing": Chart{Title: "nothing", Unit: number}.Lines(),
		"clock":   Chart{Title: "clock", Unit: number, Start: time.Now()}.Lines(NewLine("a", 3600, make([]float64, 100))),
		"bars":    c.Bars(Bar{Label: long, Value: 1}, Bar{Label: "b", Value: 1e9, Other: 3e9}),
		"no bars": c.Bars(),
		"panels":  c.Panels([]string{"client-go", "kube-apiserver", "Weir"}, Section{long, "pods", steps, []Panel{panel(1e-9, 1, 1e9, 2), panel(1, 1, 1, 1), panel(1), panel(1)}}),
	} {
		t.Run(name, func(t *testing.T) { checkPicture(t, svg) })
	}
}

// TestDocumentation checks the pictures in docs.
func TestDocumentation(t *testing.T) {
	names, err := filepath.Glob("../../../docs/incidents/*.svg")
	check.NoError(t, err)
	if len(names) < 10 {
		t.Errorf("only %d pictures of incidents", len(names))
	}
	for _, name := range append(names, "../../../docs/reference/growth.svg") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			svg, err := os.ReadFile(name)
			check.NoError(t, err)
			checkPicture(t, string(svg))
			for _, want := range []string{"cores", "GiB of memory", "client-go v", "go1.", "One run"} {
				if !strings.Contains(string(svg), want) {
					t.Errorf("no %q below the picture", want)
				}
			}
		})
	}
}
