package watchcache

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestLabelTerms compares label terms with apimachinery's evaluation of the same requirements.
func TestLabelTerms(t *testing.T) {
	var many []string
	for i := range 80 {
		many = append(many, fmt.Sprint("v", i))
	}
	for _, text := range []string{
		"a", "!a", "a=v1", "a==v1", "a!=v1", "a in (v1)", "a in (v1,v2,)", "a notin (v1,v2)", "a>3", "a<3", "a=",
		"a in (" + strings.Join(many, ",") + ")", "a notin (" + strings.Join(many, ",") + ")",
	} {
		selector, err := labels.Parse(text)
		check.NoError(t, err)
		requirements, _ := selector.Requirements()
		term := newLabelTerm(&requirements[0])
		for _, set := range []labels.Set{
			{}, {"b": "v1"}, {"a": ""}, {"a": "v1"}, {"a": "v2"}, {"a": "v79"}, {"a": "v80"}, {"a": "2"}, {"a": "4"}, {"a": "3"},
		} {
			value, ok := set["a"]
			check.Equal(t, term.matches([]byte(value), ok), selector.Matches(set), "%.40s of %v", text, set)
		}
	}
}
