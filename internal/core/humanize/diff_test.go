package humanize

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weirproject/weir/internal/testing/check"
)

// lines returns the lines of the differences between two objects in JSON.
func lines(t *testing.T, before, after string, o DiffOptions) []string {
	t.Helper()
	var a, b map[string]any
	for text, into := range map[string]*map[string]any{before: &a, after: &b} {
		check.NoError(t, json.Unmarshal([]byte(text), into))
	}
	var got []string
	for _, c := range Diff(a, b, o) {
		got = append(got, c.Line(0))
	}
	return got
}

func TestDiff(t *testing.T) {
	for _, tc := range []struct {
		name, before, after string
		want                []string
	}{
		{
			"values that came, went and changed, in the order of their paths",
			`{"spec":{"nodeName":"n"},"status":{"containerStatuses":[{"ready":false}]},"metadata":{"name":"a"}}`,
			`{"metadata":{"labels":{"x":"y"},"name":"a"},"spec":{},"status":{"containerStatuses":[{"ready":true}]}}`,
			[]string{"+ metadata.labels.x: y", "- spec.nodeName: n", "~ status.containerStatuses[0].ready: false → true"},
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
			"elements with a merge key",
			`{"c":[{"type":"Ready","status":"True"},{"type":"Old","status":"True"}],"m":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}],"p":[{"containerPort":80}]}`,
			`{"c":[{"type":"New","status":"True"},{"type":"Ready","status":"False"}],"m":[{"name":"w","mountPath":"/a"}],"p":[{"containerPort":80,"hostPort":8}]}`,
			[]string{
				`+ c[New]: {"status":"True","type":"New"}`, "~ c[Ready].status: True → False", `- c[Old]: {"status":"True","type":"Old"}`,
				"~ m[/a].name: v → w", `- m[/b]: {"mountPath":"/b","name":"v"}`, `+ p["80"].hostPort: 8`,
			},
		},
		{
			"elements in another order",
			`{"c":[{"name":"a"},{"name":"b"},{"name":"c"}],"e":[{"name":"a"},{"name":"b"}]}`,
			`{"c":[{"name":"c"},{"name":"a"}],"e":[{"name":"b","x":1},{"name":"a"}]}`,
			[]string{`- c[b]: {"name":"b"}`, "~ c (order): a,c → c,a", "+ e[b].x: 1", "~ e (order): a,b → b,a"},
		},
		{
			"elements whose key is missing, or occurs twice",
			`{"a":[{"name":"x"},{"n":1}],"b":[{"name":"x"},{"name":"x","n":1}],"c":["x",{"name":"y"}]}`,
			`{"a":[{"name":"x"},{"n":2}],"b":[{"name":"x"},{"name":"x","n":2}],"c":["x",{"name":"z"}]}`,
			[]string{"~ a[1].n: 1 → 2", "~ b[1].n: 1 → 2", "~ c[1].name: y → z"},
		},
		{
			"values deeper than labels are reported as a whole",
			`{}`, `{"status":{"phase":"Running","conditions":[]}}`,
			[]string{`+ status: {"conditions":[],"phase":"Running"}`},
		},
		{
			"keys with dots, and strings that look like something else",
			`{"metadata":{"annotations":{"a.b/c":"1","n":"x\ny","e":"","w":"é"}}}`,
			`{"metadata":{"annotations":{"a.b/c":"true","n":"\u001b[31m","e":"{}","w":"ö"}}}`,
			[]string{
				`~ metadata.annotations["a.b/c"]: "1" → "true"`, `~ metadata.annotations.e: "" → {}`,
				`~ metadata.annotations.n: "x\ny" → "\x1b[31m"`, `~ metadata.annotations.w: é → ö`,
			},
		},
		{
			"another type, and great numbers", `{"a":1,"b":[1],"c":9007199254740993}`, `{"a":"1","b":null,"c":9007199254740992}`,
			[]string{`~ a: 1 → "1"`, "~ b: [1] → null", "~ c: 9007199254740993 → 9007199254740992"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lines(t, tc.before, tc.after, DiffOptions{}); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestSecrets checks that no line shows the values of data, stringData or annotations of a Secret,
// when they are added, removed or changed.
func TestSecrets(t *testing.T) {
	secret := func(rest string) string { return `{"apiVersion":"v1","kind":"Secret",` + rest + `}` }
	got := lines(t,
		secret(`"type":"a","data":{"gone":"aHVzaA==","kept":"aHVzaA=="},
			"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush"}}`),
		secret(`"type":"b","data":{"kept":"aHVzaCE=","new":{"odd":["hush"]}},"stringData":{"x":"hush"},
			"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush!"}}`), DiffOptions{})
	want := []string{
		"- data.gone: (hidden)", "~ data.kept: (hidden), differs", "+ data.new.odd: (hidden)",
		`~ metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]: (hidden), differs`, "+ stringData.x: (hidden)", "~ type: a → b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, tc := range [][2]string{{`"data":null`, `"data":{"x":"hush"}`}, {`"data":["hush"]`, `"data":"hush"`}, {`"type":"a"`, `"data":"hush"`},
		{`"metadata":{"annotations":{"kapp.k14s.io/original":"{hush}","note":"hush"}}`, `"metadata":{"annotations":{"kapp.k14s.io/original":"{hush!}","new":"hush"}}`},
		{`"metadata":{"annotations":null}`, `"metadata":{"annotations":{"a":"hush"}}`}, {`"metadata":{"annotations":["hush"]}`, `"metadata":{"annotations":"hush"}`},
		{`"type":"a"`, `"metadata":{"annotations":{"a":"hush"}}`}} {
		if got := lines(t, secret(tc[0]), secret(tc[1]), DiffOptions{}); len(got) == 0 || strings.Contains(strings.Join(got, ""), "hush") {
			t.Errorf("%s to %s: %q", tc[0], tc[1], got)
		}
	}
}

// TestSuspected checks that DiffOptions.Secret hides the data of an object that is not known to be
// a Secret.
func TestSuspected(t *testing.T) {
	got := lines(t, `{"data":{"a":"hush"},"x":1}`, `{"data":{"a":"hush!"},"x":2}`, DiffOptions{Secret: true})
	if want := []string{"~ data.a: (hidden), differs", "~ x: 1 → 2"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestEnv checks that no line shows the value of an environment variable when a variable, or an
// object that contains variables, is added, removed or changed.
func TestEnv(t *testing.T) {
	for _, tc := range []struct {
		name, before, after string
		want                []string
	}{
		{"values", `{"spec":{"containers":[{"env":[{"name":"A","value":"hush"},{"name":"B","value":"hush"}]}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"A","value":"hush!"},{"name":"C","valueFrom":{"secretKeyRef":{"name":"s"}}}]}]}}`,
			[]string{
				"~ spec.containers[0].env[A].value: (hidden), differs", `+ spec.containers[0].env[C]: {"name":"C","valueFrom":{"secretKeyRef":{"name":"s"}}}`,
				`- spec.containers[0].env[B]: {"name":"B","value":"(hidden)"}`,
			}},
		{"variables", `{"spec":{"env":[{"name":"A","value":"hush"}]}}`, `{"spec":{"env":[{"name":"A","value":"hush"},{"name":"B","value":"hush"}]}}`,
			[]string{`+ spec.env[B]: {"name":"B","value":"(hidden)"}`}},
		{"variables with another key", `{"spec":{"env":[{"key":"hush","v":1}]}}`, `{"spec":{"env":[{"key":"hush","v":2}]}}`,
			[]string{`~ spec.env[0].v: (hidden), differs`}},
		{"containers", `{"spec":{"containers":[]}}`, `{"spec":{"containers":[{"image":"i","env":[{"name":"A","value":"hush"}]}]}}`,
			[]string{`+ spec.containers[0]: {"env":[{"name":"A","value":"(hidden)"}],"image":"i"}`}},
		{"a pod's specification", `{}`, `{"spec":{"containers":[{"env":[{"name":"A","value":"hush"}]}]}}`,
			[]string{`+ spec: {"containers":[{"env":[{"name":"A","value":"(hidden)"}]}]}`}},
		{"a map of them", `{"spec":{"extraEnv":{"A":"hush","B":"1"}}}`, `{"spec":{"extraEnv":{"A":"hush!","C":{"x":"hush"}}}}`,
			[]string{"~ spec.extraEnv.A: (hidden), differs", "- spec.extraEnv.B: (hidden)", "+ spec.extraEnv.C.x: (hidden)"}},
		{"a map that came", `{"spec":{}}`, `{"spec":{"environment":{"A":"hush"}}}`, []string{"+ spec.environment.A: (hidden)"}},
		{"texts", `{"spec":{"env":["A=hush"]}}`, `{"spec":{"env":["A=hush!","B=hush"]}}`,
			[]string{"~ spec.env[0]: (hidden) → (hidden)", "+ spec.env[1]: (hidden)"}},
		{"what tools keep", `{"metadata":{"annotations":{"kapp.k14s.io/original":"{\"a\":\"hush\"}","objectset.rio.cattle.io/applied":"H4sIhush","note":"a"}}}`,
			`{"metadata":{"annotations":{"kapp.k14s.io/original":"","objectset.rio.cattle.io/applied":"H4sIhush!","note":"b","kubectl.kubernetes.io/last-applied-configuration":" {\"a\":\"hush\"}"}}}`,
			[]string{
				`~ metadata.annotations["kapp.k14s.io/original"]: (hidden), differs`, `+ metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]: (hidden)`,
				"~ metadata.annotations.note: a → b", `~ metadata.annotations["objectset.rio.cattle.io/applied"]: (hidden), differs`,
			}},
		{"metadata that came", `{}`, `{"metadata":{"name":"a","annotations":{"kapp.k14s.io/original":"{\"a\":\"hush\"}"}}}`,
			[]string{`+ metadata.annotations["kapp.k14s.io/original"]: (hidden)`, "+ metadata.name: a"}},
		{"what is no variable", `{"spec":{"name":"a","value":"b","envFrom":[]}}`, `{"spec":{"name":"b","value":"c","envFrom":[{"prefix":"P"}]}}`,
			[]string{`+ spec.envFrom[0]: {"prefix":"P"}`, "~ spec.name: a → b", "~ spec.value: b → c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lines(t, tc.before, tc.after, DiffOptions{Env: true})
			if !slices.Equal(got, tc.want) || strings.Contains(strings.Join(got, ""), "hush") {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestLine checks that Line limits the length, and that a line for two long texts shows where they
// differ.
func TestLine(t *testing.T) {
	long := strings.Repeat("ä", 500)
	c := Change{Sign: '~', Path: "a", Old: long + "1", New: long + "2"}
	check.Equal(t, c.Line(0), "~ a: …ääääääääää1 → …ääääääääää2")
	for _, c := range []Change{{Sign: '+', Path: "a", New: long}, {Sign: '-', Path: long, Old: long}, {Sign: '~', Path: long, Old: "b", New: long}} {
		for limit, most := range map[int]int{0: maxLine, 40: 40} {
			if got := utf8.RuneCountInString(c.Line(limit)); got > most {
				t.Errorf("%d runes, limit %d", got, limit)
			}
		}
	}
}

// TestDiffIsComplete checks that two objects have no difference exactly if they are equal, with
// random objects that have lists with and without merge keys, and lists in another order.
func TestDiffIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch kind := r.IntN(6); {
		case depth == 0 || kind == 0:
			return []any{"a", "b", int64(1), "1", nil, true}[r.IntN(6)]
		case kind < 4:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(depth-1))
			}
			return list
		}
		object := map[string]any{}
		for _, key := range []string{"name", "type", "x"} {
			if r.IntN(2) == 0 {
				object[key] = value(depth - 1)
			}
		}
		return object
	}
	equal := 0
	for range 50_000 {
		a, b := map[string]any{"l": value(3)}, map[string]any{"l": value(3)}
		if list, ok := a["l"].([]any); ok && r.IntN(2) == 0 {
			list = slices.Clone(list)
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			b["l"] = list
		}
		same := reflect.DeepEqual(a, b)
		if same {
			equal++
		}
		if changes := Diff(a, b, DiffOptions{Env: r.IntN(2) == 0}); (len(changes) == 0) != same {
			t.Fatalf("%v and %v: %v", a, b, changes)
		}
	}
	if equal < 100 {
		t.Errorf("only %d pairs are equal", equal)
	}
}
