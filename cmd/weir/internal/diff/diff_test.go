package diff

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"
)

// lines are those of what changed between two objects, given as JSON.
func lines(t *testing.T, before, after string) []string {
	t.Helper()
	var a, b map[string]any
	for text, into := range map[string]*map[string]any{before: &a, after: &b} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, c := range Objects(a, b) {
		got = append(got, c.Line(0))
	}
	return got
}

func TestObjects(t *testing.T) {
	for _, tc := range []struct {
		name, before, after string
		want                []string
	}{
		{
			"values that came, went and changed, in the order of their paths",
			`{"spec":{"nodeName":"n"},"status":{"containerStatuses":[{"ready":false}]},"metadata":{"name":"a"}}`,
			`{"metadata":{"labels":{"x":"y"},"name":"a"},"spec":{},"status":{"containerStatuses":[{"ready":true}]}}`,
			[]string{"+ metadata.labels.x: y", "- spec.nodeName: n", "~ status.containerStatuses[0].ready: false -> true"},
		},
		{
			"what changes with everything is left out",
			`{"metadata":{"resourceVersion":"1","managedFields":[{"time":"a"}]}}`,
			`{"metadata":{"resourceVersion":"2","managedFields":[{"time":"b"}]}}`,
			nil,
		},
		{
			"an element that went from the front, and one that came at the end",
			`{"f":["a","b","c"],"g":[1]}`, `{"f":["b","c"],"g":[1,{"k":[2]}]}`,
			[]string{"- f[0]: a", `+ g[1]: {"k":[2]}`},
		},
		{
			"what is deeper than labels is told as a whole",
			`{}`, `{"status":{"phase":"Running","conditions":[]}}`,
			[]string{`+ status: {"conditions":[],"phase":"Running"}`},
		},
		{
			"keys with dots, and strings that look like something else",
			`{"metadata":{"annotations":{"a.b/c":"1","n":"x\ny","e":"","w":"é"}}}`,
			`{"metadata":{"annotations":{"a.b/c":"true","n":"\u001b[31m","e":"{}","w":"ö"}}}`,
			[]string{
				`~ metadata.annotations["a.b/c"]: "1" -> "true"`, `~ metadata.annotations.e: "" -> {}`,
				`~ metadata.annotations.n: "x\ny" -> "\x1b[31m"`, `~ metadata.annotations.w: é -> ö`,
			},
		},
		{
			"another type, and great numbers", `{"a":1,"b":[1],"c":9007199254740993}`, `{"a":"1","b":null,"c":9007199254740992}`,
			[]string{`~ a: 1 -> "1"`, "~ b: [1] -> null", "~ c: 9007199254740993 -> 9007199254740992"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lines(t, tc.before, tc.after); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// No line has a Secret's value, wherever it is.
func TestSecrets(t *testing.T) {
	secret := func(rest string) string { return `{"apiVersion":"v1","kind":"Secret",` + rest + `}` }
	got := lines(t,
		secret(`"type":"a","data":{"gone":"aHVzaA==","kept":"aHVzaA=="},
			"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush"}}`),
		secret(`"type":"b","data":{"kept":"aHVzaCE=","new":{"odd":["hush"]}},"stringData":{"x":"hush"},
			"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush!"}}`))
	want := []string{
		"- data.gone: (hidden)", "~ data.kept: (hidden), differs", "+ data.new.odd: (hidden)",
		"~ " + lastApplied + ": (hidden), differs", "+ stringData.x: (hidden)", "~ type: a -> b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, tc := range [][2]string{{`"data":null`, `"data":{"x":"hush"}`}, {`"data":["hush"]`, `"data":"hush"`}, {`"type":"a"`, `"data":"hush"`}} {
		if got := lines(t, secret(tc[0]), secret(tc[1])); len(got) == 0 || strings.Contains(strings.Join(got, ""), "hush") {
			t.Errorf("%s to %s: %q", tc[0], tc[1], got)
		}
	}
}

// A line is bounded, and shows where two long texts part.
func TestLine(t *testing.T) {
	long := strings.Repeat("ä", 500)
	c := Change{Sign: '~', Path: "a", Old: long + "1", New: long + "2"}
	if got, want := c.Line(0), "~ a: …ääääääääää1 -> …ääääääääää2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []Change{{Sign: '+', Path: "a", New: long}, {Sign: '-', Path: long, Old: long}, {Sign: '~', Path: long, Old: "b", New: long}} {
		for limit, most := range map[int]int{0: maxLine, 40: 40} {
			if got := utf8.RuneCountInString(c.Line(limit)); got > most {
				t.Errorf("%d runes, limit %d", got, limit)
			}
		}
	}
}
