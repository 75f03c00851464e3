package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/testing/check"
)

// The examples of RFC 6902, appendix A, and some more. Where kube-apiserver differs, the test
// expects its answer: it compares numbers by their text, counts negative indexes from the end, and
// lets replace add a member.
func TestJSONPatch(t *testing.T) {
	const fails = ""
	for _, tt := range []struct{ name, document, patch, want string }{
		{"add a member", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`},
		{"add an element", `{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{"remove a member", `{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{"remove an element", `{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{"replace", `{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{"replace an element", `[1,2,3]`, `[{"op":"replace","path":"/1","value":null}]`, `[1,null,3]`},
		{"move a value", `{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`,
			`[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{"move an element", `{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`,
			`{"foo":["all","cows","eat","grass"]}`},
		{"copy", `{"a":{"b":[1]}}`, `[{"op":"copy","from":"/a/b","path":"/c"},{"op":"add","path":"/c/0","value":0}]`, `{"a":{"b":[1]},"c":[0,1]}`},
		{"test", `{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`,
			`{"baz":"qux","foo":["a",2,"c"]}`},
		{"test fails", `{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, fails},
		{"test of numbers", `{"a":1.0}`, `[{"op":"test","path":"/a","value":1}]`, fails},
		{"test of null", `{"a":null}`, `[{"op":"test","path":"/a","value":null}]`, `{"a":null}`},
		{"test is not of strings", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, fails},
		{"a nested member", `{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"child":{"grandchild":{}},"foo":"bar"}`},
		{"unknown members", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"baz":"qux","foo":"bar"}`},
		{"into nothing", `{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, fails},
		{"escapes", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10},{"op":"remove","path":"/~1"}]`, `{"~1":10}`},
		{"append", `{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},
		{"append by index", `[1]`, `[{"op":"add","path":"/1","value":2}]`, `[1,2]`},
		{"behind the end", `[1]`, `[{"op":"add","path":"/2","value":2}]`, fails},
		{"a negative index", `[1,2]`, `[{"op":"remove","path":"/-1"}]`, `[1]`},
		{"a negative index before the beginning", `[1,2]`, `[{"op":"remove","path":"/-3"}]`, fails},
		{"remove the end", `[1,2]`, `[{"op":"remove","path":"/-"}]`, fails},
		{"remove nothing", `{}`, `[{"op":"remove","path":"/a"}]`, fails},
		{"replace nothing", `{}`, `[{"op":"replace","path":"/a","value":1}]`, `{"a":1}`},
		{"the whole document", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{"remove the whole", `{"a":1}`, `[{"op":"remove","path":""}]`, fails},
		{"into itself", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, fails},
		{"onto itself", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":{"b":1}}`},
		{"into a string", `{"a":"b"}`, `[{"op":"add","path":"/a/0","value":1}]`, fails},
		{"no slash", `{"a":"b"}`, `[{"op":"add","path":"a","value":1}]`, fails},
		{"large numbers stay", `{"a":9007199254740993}`, `[{"op":"add","path":"/b","value":9007199254740995}]`,
			`{"a":9007199254740993,"b":9007199254740995}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			apply, err := jsonPatcher([]byte(tt.patch))
			check.NoError(t, err)
			got, err := apply([]byte(tt.document))
			if (err != nil) != (tt.want == fails) {
				t.Fatalf("%s: %v", got, err)
			}
			if err == nil && string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A document that is copied into itself doubles each time.
func TestJSONPatchBomb(t *testing.T) {
	patch := "[" + strings.Repeat(`{"op":"copy","from":"","path":"/a"},{"op":"copy","from":"/a","path":"/b"},`, 100) + `{"op":"remove","path":"/a"}]`
	apply, err := jsonPatcher([]byte(patch))
	check.NoError(t, err)
	if _, err := apply([]byte(`{}`)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("got %v", err)
	}
}

func TestJSONPatchSyntax(t *testing.T) {
	for _, text := range []string{`{}`, `[5]`, ``, `[{}`} {
		if _, err := jsonPatcher([]byte(text)); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`[{}]`, `[{"op":"move","path":"/a"}]`, `[{"op":"remove"}]`, `[{"op":"x","path":""}]`} {
		apply, err := jsonPatcher([]byte(text))
		check.NoError(t, err)
		if _, err := apply([]byte(`{"a":1}`)); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The examples of RFC 7386, appendix A, in which the document and the patch are objects.
func TestMergePatch(t *testing.T) {
	for _, tt := range []struct{ document, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		apply, err := mergePatcher([]byte(tt.patch))
		check.NoError(t, err)
		got, err := apply([]byte(tt.document))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s with %s: got %s, want %s (%v)", tt.document, tt.patch, got, tt.want, err)
		}
	}
	for _, text := range []string{`["c"]`, `null`, `"bar"`, `{`} {
		if _, err := mergePatcher([]byte(text)); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`[{"op":"move","from":"/a/1","path":"/a/0"},{"op":"copy","from":"/a","path":"/b"}]`))
	f.Add([]byte(`[]`), []byte(`[{"op":"add","path":"/-","value":{}},{"op":"remove","path":"/0"}]`))
	f.Fuzz(func(t *testing.T, text, patch []byte) {
		apply, err := jsonPatcher(patch)
		if err != nil || !json.Valid(text) || text[0] != '{' {
			return // a stored object is an object
		}
		if out, err := apply(text); err == nil && !json.Valid(out) {
			t.Errorf("the result is no JSON: %s", out)
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("/api/v1/namespaces/a/pods/b/status")
	f.Add("/apis/apps/v1/watch/namespaces/a/deployments")
	f.Fuzz(func(t *testing.T, path string) {
		if q, ok := parsePath(path); ok && (q.Version == "" || q.Resource == "" || q.Subresource != "" && q.Name == "") {
			t.Errorf("%q: %+v", path, q)
		}
	})
}
