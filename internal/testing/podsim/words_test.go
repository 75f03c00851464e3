package podsim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestWordsAreValid(t *testing.T) {
	for _, noise := range []bool{false, true} {
		w := &Words{Rand: rand.New(rand.NewPCG(1, 2)), Noise: noise}
		for range 500 {
			for _, name := range []string{w.Word(), w.Name()} {
				if errs := validation.IsDNS1123Label(name); len(errs) != 0 || len(name) > 45 {
					t.Errorf("name %q: %v", name, errs)
				}
			}
			if name := w.Variable(); len(validation.IsEnvVarName(name)) != 0 {
				t.Errorf("variable %q", name)
			}
			if v := w.Value(); v == "" || !utf8.ValidString(v) {
				t.Errorf("value %q", v)
			}
			if s := w.Text(100); len(s) > 100 || len(s) < 95 {
				t.Errorf("%d bytes of text, want about 100", len(s))
			}
			if s := w.Text(1_000); strings.Contains(s, "%") {
				t.Errorf("%q has a percent sign, of which the stub's blanks are made", s)
			}
			if n := w.Between(3, 5); n < 3 || n > 5 {
				t.Errorf("%d is not from 3 to 5", n)
			}
		}
	}
}

func TestSeveralAreDifferent(t *testing.T) {
	w := &Words{Rand: rand.New(rand.NewPCG(1, 2))}
	least, most := 9, 0
	for range 200 {
		all := w.Several(1, 4, w.Word)
		least, most = min(least, len(all)), max(most, len(all))
		seen := map[string]bool{}
		for _, s := range all {
			seen[s] = true
		}
		if len(seen) != len(all) {
			t.Errorf("%v are not different", all)
		}
	}
	if least != 1 || most != 4 {
		t.Errorf("%d to %d, want 1 to 4", least, most)
	}
}

func TestIdentifiers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	if s := Hash(rnd, 10); len(s) != 10 || strings.Trim(s, NameAlphabet) != "" {
		t.Errorf("hash %q", s)
	}
	if s := Hex(rnd, 21); len(s) != 21 || strings.Trim(s, "0123456789abcdef") != "" {
		t.Errorf("hex %q", s)
	}
	if a, b := UID(rnd), UID(rnd); len(a) != 36 || a[14] != '4' || a == b {
		t.Errorf("uids %q and %q", a, b)
	}
}
