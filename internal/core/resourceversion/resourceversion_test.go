package resourceversion_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text          string
		want          uint64
		ok, canonical bool
	}{
		{"0", 0, true, true}, {"1", 1, true, true}, {"18446744073709551615", 1<<64 - 1, true, true},
		{"01", 1, true, false}, {"00", 0, true, false}, {"0000000000000000000000042", 42, true, false},
		{"18446744073709551616", 0, false, false}, {"99999999999999999999", 0, false, false}, {"184467440737095516150", 0, false, false},
		{"", 0, false, false}, {"+1", 0, false, false}, {"-1", 0, false, false}, {"1a", 0, false, false}, {" 1", 0, false, false},
		{"1_0", 0, false, false}, {"0x10", 0, false, false},
	} {
		rv, err := resourceversion.Parse(c.text)
		var number *strconv.NumError
		switch {
		case c.ok && (err != nil || rv != c.want):
			t.Errorf("Parse(%q) = %d, %v", c.text, rv, err)
		case !c.ok && !errors.As(err, &number):
			t.Errorf("Parse(%q) = %d, %v", c.text, rv, err)
		}
		check.Equal(t, resourceversion.Number(c.text), c.want, "Number(%q) =", c.text)
		check.Equal(t, resourceversion.Number([]byte(c.text)), c.want, "Number of the bytes %q =", c.text)
		rv, ok := resourceversion.ParseCanonical(c.text)
		if ok != c.canonical || ok && rv != c.want {
			t.Errorf("ParseCanonical(%q) = %d, %v", c.text, rv, ok)
		}
		if ok && resourceversion.Format(rv) != c.text {
			t.Errorf("%q is formatted as %s", c.text, resourceversion.Format(rv))
		}
	}
}

// TestParseAllocates checks that Parse of an integer, ParseCanonical and Older do not allocate,
// because a reflector parses the resourceVersion of each object.
func TestParseAllocates(t *testing.T) {
	integer, opaque := []byte("18446744073709551615"), []byte("v7-4fz.1c")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := resourceversion.Parse(integer); err != nil {
			t.Error(err)
		}
		if _, ok := resourceversion.ParseCanonical(opaque); ok {
			t.Errorf("%s is an integer", opaque)
		}
		if resourceversion.Older(string(integer), string(opaque)) {
			t.Errorf("%s is older than %s", integer, opaque)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b                string
		older, incomparable bool
		newest              string
	}{
		{"1", "2", true, false, "2"},
		{"2", "1", false, false, "2"},
		{"1", "1", false, false, "1"},
		{"9", "10", true, false, "10"},
		{"10", "9", false, false, "10"},
		{"009", "10", true, false, "10"},
		{"09", "9", false, false, "9"},
		{"0", "1", true, false, "1"},
		{"99999999999999999999999", "100000000000000000000000", true, false, "100000000000000000000000"},
		{"", "1", false, true, "1"},
		{"1", "", false, true, "1"},
		{"a", "1", false, true, "1"},
		{"1", "b", false, true, "b"},
		{"a", "a", false, false, "a"},
		{"", "", false, false, ""},
	} {
		check.Equal(t, resourceversion.Older(c.a, c.b), c.older, "Older(%q, %q) =", c.a, c.b)
		check.Equal(t, resourceversion.Incomparable(c.a, c.b), c.incomparable, "Incomparable(%q, %q) =", c.a, c.b)
		check.Equal(t, resourceversion.Newest(c.a, c.b), c.newest, "Newest(%q, %q) =", c.a, c.b)
	}
}
