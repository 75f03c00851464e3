package request

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestQuery checks that Query finds the same values as url.ParseQuery in 100,000 random queries.
func TestQuery(t *testing.T) {
	pieces := []string{
		"watch", "w%61tch", "%77%61%74%63%68", "watc%68x", "watch%", "wat+ch", "Watch", "fieldSelector", "field%53elector", "field%5",
		"&", "&", "&", "=", "=", ";", "%", "%zz", "%3D", "%26", "%3B", "+", "true", "0", "metadata.name%3Da", "ü", "\x00", " ",
	}
	dice := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 100_000 {
		var query strings.Builder
		for range dice.IntN(12) {
			query.WriteString(pieces[dice.IntN(len(pieces))])
		}
		// despite an error, ParseQuery returns the pairs that it can parse
		all, _ := url.ParseQuery(query.String())
		for _, name := range []string{"watch", "fieldSelector"} {
			got := slices.Collect(Query(query.String()).All(name))
			if !slices.Equal(got, all[name]) {
				t.Fatalf("%q has %q for %s, want %q", query.String(), got, name, all[name])
			}
			if first, ok := Query(query.String()).Lookup(name); first != all.Get(name) || ok != all.Has(name) {
				t.Fatalf("%q begins with %q, %t for %s, want %q", query.String(), first, ok, name, all.Get(name))
			}
			found += len(got)
		}
	}
	if found < 1000 {
		t.Errorf("only %d values are compared", found)
	}
}

// TestManyParams checks that looking up a parameter among 10,000 others allocates little, because
// the proxy looks up parameters before it admits a request.
func TestManyParams(t *testing.T) {
	const params = 10_000
	var query strings.Builder
	query.WriteString("watch=1&dryRun=All")
	for i := range params - 2 {
		fmt.Fprintf(&query, "&%x", i)
	}
	at := &url.URL{Path: "/api/v1/pods", RawQuery: query.String()}
	for what, read := range map[string]func(){
		"the info":    func() { InfoOf(http.MethodGet, at) },
		"the dry run": func() { QueryOf(at).Get("dryRun") },
	} {
		if n := testing.AllocsPerRun(5, read); n > 100 {
			t.Errorf("%s: %v allocations for %d parameters", what, n, params)
		}
	}
	if info, dry := InfoOf(http.MethodGet, at), QueryOf(at).Get("dryRun"); info.Verb != "watch" || dry != "All" {
		t.Errorf("it is a %s, dry run: %q", info.Verb, dry)
	}
}
