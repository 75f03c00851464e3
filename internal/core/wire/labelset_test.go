package wire

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// Objects have the same set exactly if they have the same labels, in any order and either encoding,
// and EachLabel yields them.
func TestLabelSet(t *testing.T) {
	long := string(make([]byte, 300))
	all := []map[string]string{
		nil, {"a": ""}, {"": "a"}, {"a": "b"}, {"ab": ""}, {"a": "b", "c": "d"}, {"a": "bc", "d": ""}, {"a\"b": "c\\d\te", "": "", "plain": "<x>"}, {long: long},
	}
	seen := map[string]int{}
	for i, labels := range all {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}}
		raw, err := pod.Marshal()
		check.NoError(t, err)
		var m Meta
		check.NoError(t, ReadMeta(Protobuf, raw, &m))
		set := string(m.LabelSet())
		if other, ok := seen[set]; ok {
			t.Errorf("%q and %q have the same set", labels, all[other])
		}
		seen[set] = i
		if got := maps.Collect(EachLabel(set)); !maps.Equal(got, labels) {
			t.Errorf("EachLabel yields %q for %q", labels, got)
		}
		if string(LabelSetOf(labels)) != set {
			t.Errorf("%q as a map is another set", labels)
		}
	}
}

func TestLabelSetUnordered(t *testing.T) {
	var m Meta
	for _, labels := range []string{`{"a":"1","b":"2"}`, `{"b":"2","a":"1"}`, `{"a":"0","b":"2","a":"1"}`, `{"a":"0","a":"1","b":"2"}`} {
		check.NoError(t, ReadMeta(JSON, fmt.Appendf(nil, `{"metadata":{"name":"p","labels":%s}}`, labels), &m))
		check.Equal(t, string(m.LabelSet()), "\x01a\x011\x01b\x012", "%s", labels)
	}
}

// What is no set ends somewhere.
func TestEachLabelOfNothing(t *testing.T) {
	for _, set := range []string{"\x05ab", "\x01", "\x01a", "\x01a\x07", "\xff\xff\xff\xff\xff\xff", "\x01a\xff"} {
		for key, value := range EachLabel(set) {
			t.Errorf("%q: %q is %q", set, key, value)
		}
	}
}
