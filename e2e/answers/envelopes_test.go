package answers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// queries are LISTs of three existing objects.
var queries = []string{
	"resourceVersion=0", "resourceVersion=0&limit=2", "resourceVersion={N}", "resourceVersion={N}&resourceVersionMatch=NotOlderThan",
	"resourceVersion={N}&resourceVersionMatch=Exact", "resourceVersion={N}&resourceVersionMatch=Exact&limit=1",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=2", "resourceVersion={N}&resourceVersionMatch=Exact&limit=3",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=500", "resourceVersion={N}&limit=1",
	"resourceVersion=0&fieldSelector=metadata.name%3Dnothing", "resourceVersion=0&labelSelector=nothing",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=1&labelSelector=!nothing",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=1&fieldSelector=metadata.name!%3Dnothing",
	"resourceVersion=0&fieldSelector=metadata.name%3D" + kept,
}

// TestEnvelopes compares lists that are empty, of one page and of several, before an object is
// deleted and after that, and after all are.
func TestEnvelopes(t *testing.T) {
	ctx := shared.Begin(t, deadline)
	c := newComparison(t, ctx)
	fill(t, ctx, fixedSeed, kept, changed, gone)
	remaining := []string{kept, changed, gone}
	pages := 0
	for _, name := range []string{made, gone, changed, kept} {
		if name != made { // another test may have created one
			remaining = remaining[:len(remaining)-1]
		}
		remove(t, ctx, name)
		for _, r := range served {
			if !r.custom() && r.Resource != "configmaps" && r.Resource != "statefulsets" && r.Resource != "clusterroles" {
				continue
			}
			version := c.listed(t, ctx, r, remaining...)
			for _, query := range queries {
				for _, accept := range []string{jsonType, jsonType + metadataList, jsonType + metadataList + "beta1"} {
					pages += c.pages(t, ctx, r, r.path()+"?"+strings.ReplaceAll(query, "{N}", version), accept)
				}
			}
		}
	}
	if pages < 100 {
		t.Errorf("%d pages follow others", pages)
	}
}

// pages compares a LIST, and the pages that follow. It returns how many these are.
func (c *comparison) pages(t *testing.T, ctx context.Context, r *resource, target, accept string) (n int) {
	t.Helper()
	first, _, _ := strings.Cut(target, "resourceVersion=")
	_, limit, _ := strings.Cut(target, "&limit=")
	for ours, theirs := target, target; ; n++ {
		a, err := c.ours.ask(ctx, ours, accept, 0)
		check.NoError(t, err)
		b, err := c.theirs.ask(ctx, theirs, accept, 0)
		check.NoError(t, err)
		if a.code != http.StatusOK || b.code != http.StatusOK || !a.cached {
			t.Errorf("%s as %s: the proxy answers %d, from its cache: %v; kube-apiserver %d: %.200s", ours, accept, a.code, a.cached, b.code, b.parts[0])
			return n
		}
		if text := difference(cluster.ComparableList(a.parts[0]), cluster.ComparableList(b.parts[0])); text != "" {
			c.fault(t, "page "+strings.Trim(target, "0123456789"), r, accept, "%s: %s", target, text)
			return n
		}
		next, other := tokenOf(t, a), tokenOf(t, b)
		if next == "" || other == "" {
			return n
		}
		ours, theirs = first+"limit="+limit+"&continue="+next, first+"limit="+limit+"&continue="+other
	}
}

func tokenOf(t *testing.T, a *answer) string {
	t.Helper()
	var list struct{ Metadata struct{ Continue string } }
	check.NoError(t, json.Unmarshal(a.parts[0], &list))
	return list.Metadata.Continue
}
