package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestParams: what is read of a query is what url.ParseQuery reads, however it is written.
func TestParams(t *testing.T) {
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
		all, _ := url.ParseQuery(query.String()) // which gives what it can read
		for _, name := range []string{"watch", "fieldSelector"} {
			got := slices.Collect(params(query.String(), name))
			if !slices.Equal(got, all[name]) {
				t.Fatalf("%q has %q for %s, want %q", query.String(), got, name, all[name])
			}
			if first, ok := firstParam(query.String(), name); first != all.Get(name) || ok != all.Has(name) {
				t.Fatalf("%q begins with %q, %t for %s, want %q", query.String(), first, ok, name, all.Get(name))
			}
			found += len(got)
		}
	}
	if found < 1000 {
		t.Errorf("only %d values are compared", found)
	}
}

// TestManyParams: whoever writes as many parameters as may be, before anybody has admitted the
// request, has none of them parsed.
func TestManyParams(t *testing.T) {
	var query strings.Builder
	query.WriteString("watch=1&dryRun=All")
	for i := range maxParams - 2 {
		fmt.Fprintf(&query, "&%x", i)
	}
	at := &url.URL{Path: "/api/v1/pods", RawQuery: query.String()}
	if queryTooLong(at) {
		t.Fatalf("%d bytes are too long", query.Len())
	}
	for what, read := range map[string]func(){
		"the info":    func() { requestInfoOf(http.MethodGet, at) },
		"the dry run": func() { dryRunOf(at) },
	} {
		if n := testing.AllocsPerRun(5, read); n > 100 {
			t.Errorf("%s: %v allocations for %d parameters", what, n, maxParams)
		}
	}
	if info, dry := requestInfoOf(http.MethodGet, at), dryRunOf(at); info.Verb != "watch" || dry != "All" {
		t.Errorf("it is a %s, dry run: %q", info.Verb, dry)
	}
}
