package shard

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func uid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16, r.Uint64()>>16)
}

func TestHash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", "kube-system", "\x00\xff"}
	for range 1000 {
		texts = append(texts, uid(r))
	}
	for _, text := range texts {
		check.Equal(t, fmt.Sprintf("%016x", Hash(text)), hashField(text), "hash of %q", text)
	}
}

// hashField returns the hash of a field according to KEP-5866: FNV-1a with 64 bits, in hexadecimal.
// These tests cannot import apimachinery's package sharding, because the oldest supported version
// lacks it: go mod tidy of a user's module would fail. Package proxy compares with that package.
func hashField(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// contract is a selector as KEP-5866 defines it: the ranges of hashes of one field, from the first
// text to before the second.
type contract struct {
	path   string
	ranges [][2]string
}

// contract returns the contract's selector for the same ranges.
func (s *Selector) contract() (c contract) {
	c.path = map[Field]string{UID: "object.metadata.uid", Namespace: "object.metadata.namespace"}[s.field]
	for _, r := range s.ranges {
		end := "0x10000000000000000"
		if r.Last != math.MaxUint64 {
			end = fmt.Sprintf("0x%016x", r.Last+1)
		}
		c.ranges = append(c.ranges, [2]string{fmt.Sprintf("0x%016x", r.First), end})
	}
	return c
}

func (c contract) String() string {
	var terms []string
	for _, r := range c.ranges {
		terms = append(terms, fmt.Sprintf("shardRange(%s, '%s', '%s')", c.path, r[0], r[1]))
	}
	return strings.Join(terms, " || ")
}

// matches reports whether a range has the hash of an object's field.
func (c contract) matches(uid, namespace string) bool {
	value := uid
	if c.path == "object.metadata.namespace" {
		value = namespace
	}
	hash := hashField(value)
	return slices.ContainsFunc(c.ranges, func(r [2]string) bool {
		return r[0][2:] <= hash && (hash < r[1][2:] || len(r[1]) > len("0x0123456789abcdef"))
	})
}

// TestSplit checks that each object is in exactly one shard of each split, and that the contract's
// selector selects the same objects. Parse of a selector's text must return an equal selector.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, count := range []int{1, 2, 3, 4, 5, 7, 10, 64, 1000} {
		var selectors []*Selector
		var contracts []contract
		for i := range count {
			s := Shard{Index: i, Count: count}
			check.NoError(t, s.Validate())
			sel := s.Selector()
			if count == 1 {
				if sel != nil {
					t.Errorf("the only shard selects by %s", sel)
				}
				continue
			}
			if count == 7 {
				sel.field = Namespace
			}
			again, err := Parse(sel.String())
			if err != nil || again.String() != sel.String() || again.field != sel.field {
				t.Fatalf("%s comes back as %v: %v", sel, again, err)
			}
			if c := sel.contract(); c.String() != sel.String() {
				t.Fatalf("%s should be %s", sel, c)
			}
			selectors, contracts = append(selectors, sel), append(contracts, sel.contract())
		}
		for range 200 {
			uid, namespace, in := uid(r), fmt.Sprint("ns-", r.IntN(100)), 0
			for i, sel := range selectors {
				ours := sel.Chooses([]byte(uid), []byte(namespace))
				if want := contracts[i].matches(uid, namespace); ours != want {
					t.Fatalf("%s of %s in %s: %t, not %t", sel, uid, namespace, ours, want)
				}
				if ours {
					in++
				}
			}
			if count > 1 && in != 1 {
				t.Fatalf("%s is in %d of %d shards", uid, in, count)
			}
		}
	}
}

// TestRanges checks that a selector with many unordered, overlapping ranges selects the same
// objects as the contract's selector.
func TestRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var ranges []Range
		for range 1 + r.IntN(8) {
			// only the first byte is random, so that many ranges overlap or are adjacent
			a, b := r.Uint64()>>56, r.Uint64()>>56
			ranges = append(ranges, Range{min(a, b) << 56, max(a, b)<<56 | uint64(math.MaxUint64>>8)})
		}
		sel := newSelector(UID, ranges)
		contract := sel.contract()
		for range 50 {
			uid := uid(r)
			if got, want := sel.Chooses([]byte(uid), nil), contract.matches(uid, ""); got != want {
				t.Fatalf("%s of %s: %t, not %t", sel, uid, got, want)
			}
		}
		for _, rg := range ranges {
			if !sel.Has(rg.First) || !sel.Has(rg.Last) {
				t.Fatalf("%s lacks an end of %v", sel, rg)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Shard{{Count: -1}, {Index: 1}, {Index: -1}, {Index: 2, Count: 2}, {Index: -1, Count: 2}} {
		check.ErrorIs(t, s.Validate(), ErrShard, "%+v", s)
	}
	for _, s := range []Shard{{}, {Count: 1}, {Index: 1, Count: 2}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

const (
	low  = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	high = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
)

func TestParse(t *testing.T) {
	tests := []struct{ text, want string }{
		{low, low}, {high, high}, {low + " || " + high, low + " || " + high}, {high + "||" + low, high + " || " + low},
		{" \t" + low + "\n", low}, {"(" + low + ")", low}, {"((" + low + ") || (" + high + "))", low + " || " + high},
		{"// all\n" + low + "//", low}, {strings.ReplaceAll(low, "'", `"`), low}, {strings.ReplaceAll(low, " ", ""), low},
		{strings.ReplaceAll(low, ".", " . "), low}, {"shardRange((object.metadata).uid,('0x0000000000000000'),'0x8000000000000000')", low},
		{strings.ReplaceAll(low, "uid", "namespace"), strings.ReplaceAll(low, "uid", "namespace")},
		{low + " || " + low, low + " || " + low},
	}
	for _, tt := range tests {
		if s, err := Parse(tt.text); err != nil || s.String() != tt.want {
			t.Errorf("%s is read as %v: %v", tt.text, s, err)
		}
	}
	with := func(from, to string) string { return strings.Replace(low, from, to, 1) }
	for _, text := range []string{
		"", " ", "x", "()", "''", low + " ||", "|| " + low, low + low, low + " | " + high, low + " && " + high, "!" + low, "(" + low, low + ")",
		with("shardRange", "shardrange"), with("shardRange", ".shardRange"), with("shardRange", "o.shardRange"), with("object", ".object"),
		with("uid", "name"), with("uid", "uid.x"), with("object.", ""), with("metadata", "'metadata'"), with("object.metadata.uid", "'object.metadata.uid'"),
		with("0x0000000000000000", "0x0"), with("0x0000000000000000", "0000000000000000"), with("0x0000000000000000", "0X0000000000000000"),
		with("0x8000000000000000", "0x80000000000000000"), with("0x8000000000000000", "0x800000000000000G"), with("0x8000000000000000", "0xF000000000000000"),
		with("0x8000000000000000", "0x0000000000000000"), with("0x0000000000000000", "0x9000000000000000"), with("0x8000000000000000", ""),
		with("0x0000000000000000", "0x10000000000000000"), with("'0x8000000000000000'", "0x8000000000000000"), with("'0x8000000000000000'", `'0x8000000000000000"`),
		with("'0x8000000000000000'", `'\x308000000000000000'`), with("'0x8000000000000000'", `b'0x8000000000000000'`), with(")", ", 1)"), with(", '0x8000000000000000'", ""),
		with("'0x8000000000000000'", "'''0x8000000000000000'''"), with("'0x8000000000000000'", "'0x8000000000000000\n'"), with(")", ",)"),
		low + " || " + strings.ReplaceAll(high, "uid", "namespace"), strings.Repeat("(", 100) + low + strings.Repeat(")", 100),
		low + "'", low + " 'x", low + `"`, low + `'\x'`, "(" + low + ")'", low + "||" + high + "'\n'", low + "// a comment\n'",
		"//" + strings.Repeat("x", 100_000) + "\n" + low, strings.Repeat(low+"||", 2000) + low, "\x00" + low, low + "\u00a0||" + high,
	} {
		if s, err := Parse(text); !errors.Is(err, ErrSelector) {
			t.Errorf("%.200q is read as %.200v: %v", text, s, err)
		}
	}
}

// TestParseCost checks that Parse needs few allocations to reject a long invalid text, and that its
// error is short.
func TestParseCost(t *testing.T) {
	for _, text := range []string{
		"shardRange(" + strings.Repeat("a.", 1<<14) + "a,", "shardRange(" + strings.Repeat("object . ", 1<<12), "shardRange(" + strings.Repeat("a", 1<<15) + ".a",
		"shardRange(" + strings.Repeat("(", 1<<15), strings.Repeat("||", 1<<14), strings.Replace(low, "0x", "0x"+strings.Repeat("0", 1<<15), 1),
	} {
		if n := testing.AllocsPerRun(1, func() {
			if _, err := Parse(text); !errors.Is(err, ErrSelector) || len(err.Error()) > 300 {
				t.Errorf("%.100q: %.1000v", text, err)
			}
		}); n > 100 {
			t.Errorf("%.100q: %v allocations", text, n)
		}
	}
}

// FuzzParse checks that the text of an accepted selector parses to a selector with the same text,
// which is the contract's.
func FuzzParse(f *testing.F) {
	for _, text := range []string{low, high, "(" + low + "||" + high + ")", "//\n" + low, strings.ReplaceAll(low, "uid", "namespace"), "shardRange((object).metadata.uid,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrSelector) {
				t.Fatal(err)
			}
			return
		}
		if c := s.contract(); c.String() != s.String() {
			t.Fatalf("%s should be %s", s, c)
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%s comes back as %v: %v", s, again, err)
		}
	})
}
