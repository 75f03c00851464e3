package figures

import (
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	all := []string{"a", "b", "c"}
	itself := func(s string) string { return s }
	for _, test := range []struct {
		names, want []string
	}{
		{nil, all},
		{[]string{"c", "a"}, []string{"a", "c"}},
	} {
		if got, err := Choose("letter", all, itself, test.names...); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, %v", test.names, got, err)
		}
	}
	if _, err := Choose("letter", all, itself, "a", "d"); err == nil || !strings.Contains(err.Error(), `no letter "d": there are a, b, c`) {
		t.Errorf("an unknown name: %v", err)
	}
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("all has become %v", all)
	}
}
