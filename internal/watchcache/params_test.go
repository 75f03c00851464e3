package watchcache

import (
	"net/url"
	"strings"
	"testing"
)

// TestParamsOf: what a query asks for is read once, and no error is remembered.
func TestParamsOf(t *testing.T) {
	of := func(query string) *params {
		t.Helper()
		p, err := cachedParams(&url.URL{RawQuery: query})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const query = "resourceVersion=0&labelSelector=params%3Dof&includeObject=None"
	first := of(query)
	if first.version != "0" || first.labels.String() != "params=of" || first.includeObject != "None" {
		t.Errorf("%+v", first)
	}
	if of(query) != first {
		t.Error("it is read again")
	}
	if other := of(query + "&limit=1"); other == first || other.limit != 1 {
		t.Errorf("%+v", other)
	}
	long := query + "," + strings.Repeat("x", maxCachedQuery)
	if first := of(long); first == of(long) {
		t.Error("a long query is remembered")
	}
	for range 2 {
		if _, err := cachedParams(&url.URL{RawQuery: "limit=many"}); err == nil {
			t.Error("a limit of many")
		}
	}
	if _, ok := paramsCache.Get("limit=many"); ok {
		t.Error("an error is remembered")
	}
}
