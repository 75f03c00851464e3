package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/proxy"
)

// row is a request that the proxy must answer like kube-apiserver. The zero value is a LIST of the
// objects in the test's namespace.
type row struct {
	name  string // name of the sub-test
	query string // may contain placeholders (see world.fill)
	// path replaces the path of the objects if it starts with a slash. Otherwise it is appended to the
	// path of the objects.
	path   string
	method string
	accept string
	gzip   string // Accept-Encoding
	only   string // if set, the row is only for this resource
	// passed is the reason why the proxy must forward the request. If it is empty, the proxy must
	// answer from its cache. The exceptions are an invalid request, and a request for a
	// resourceVersion that the cache has not reached.
	passed string
	// inconsistent means that the continue token is for the current state, not for the state of the
	// first page.
	inconsistent bool
	// differs is an intended difference between the answers, or nil.
	differs *difference
}

// difference is an intended difference between the answers of the proxy and of kube-apiserver. hide
// removes it from an answer.
type difference struct {
	why  string
	hide func(*answer)
}

func (r *row) watch() bool {
	q, _ := url.ParseQuery(r.query)
	return q.Has("watch") && q.Get("watch") != "false" && r.path == "" || strings.Contains(r.path, "/watch/")
}

// exact reports whether the request is for the state of one resourceVersion. The resourceVersions
// of both answers must then be equal.
func (r *row) exact() bool {
	q, _ := url.ParseQuery(r.query)
	rv, limit := q.Get("resourceVersion"), q.Get("limit")
	return !r.inconsistent && q.Get("continue") != "" || q.Get("resourceVersionMatch") == "Exact" ||
		q.Get("resourceVersionMatch") == "" && limit != "" && limit[0] != '-' && rv != "" && rv != "0"
}

func (r *row) where(w *world) string {
	switch {
	case r.path == "":
		return w.path()
	case strings.HasPrefix(r.path, "/"):
		return r.path
	}
	return w.path() + "/" + r.path
}

// TestSemantics sends the rows of pods and of a custom resource to kube-apiserver and to the proxy.
// It compares the answers, and checks whether the proxy forwarded the request.
func TestSemantics(t *testing.T) {
	ctx := begin(t)
	client := dynamicFor(t)
	makeNamespace(t, ctx, client)
	define(t, ctx, client)
	cached := []string{"pods", "widgets." + widgetGroup}
	s := start(t, ctx, proxy.Options{Resources: cached, TrustCache: cached})
	theirs, ours := newServer(t, shared.Config()), newServer(t, through(t, s, shared.Config()))
	for _, gvr := range []schema.GroupVersionResource{podResource, widgetResource} {
		w := newWorld(t, ctx, client, gvr)
		for _, of := range []*server{theirs, ours} {
			of.settle(t, ctx, w)
			of.readPage(t, ctx, w)
		}
		rows := rowsFor(w)
		answers := askAll(ctx, rows, w, ours, theirs)
		for i, r := range rows {
			t.Run(w.gvr.Resource+"/"+r.name, func(t *testing.T) { answers[i].compare(t, r) })
		}
	}
}

// TestSemanticsProven is like TestSemantics, but for consistent reads of a resource that is not in
// TrustCache. The proxy answers such a read after it has checked that its cache is current.
func TestSemanticsProven(t *testing.T) {
	ctx := begin(t)
	client := dynamicFor(t)
	makeNamespace(t, ctx, client)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	theirs, ours := newServer(t, shared.Config()), newServer(t, through(t, s, shared.Config()))
	w := newWorld(t, ctx, client, podResource)
	for _, of := range []*server{theirs, ours} {
		of.settle(t, ctx, w)
	}
	var rows []*row
	for _, r := range rowsFor(w) {
		if q, _ := url.ParseQuery(r.query); !q.Has("resourceVersion") && !q.Has("continue") {
			rows = append(rows, r)
		}
	}
	proven := 0
	for i, b := range askAll(ctx, rows, w, ours, theirs) {
		if b.err == nil && !b.ours.passed {
			proven++
		}
		t.Run(rows[i].name, func(t *testing.T) { b.compareTexts(t, rows[i]) })
	}
	// The other rows are errors, pages of two objects, or forms that the proxy cannot make.
	if proven < 5 {
		t.Errorf("%d of %d were answered by the proxy", proven, len(rows))
	}
}

// both has the answers of the proxy and of kube-apiserver to one request.
type both struct {
	ours, theirs *answer
	err          error
}

// maxAsked bounds the requests that are sent at the same time. It is high because most of them
// wait.
const maxAsked = 100

func askAll(ctx context.Context, rows []*row, w *world, ours, theirs *server) []both {
	answers := make([]both, len(rows))
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for i, r := range rows {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for again := true; again && ctx.Err() == nil; again = answers[i].late() {
				answers[i] = askBoth(ctx, r, w, ours, theirs)
			}
		})
	}
	wg.Wait()
	return answers
}

func askBoth(ctx context.Context, r *row, w *world, ours, theirs *server) (b both) {
	var err error
	var first sync.WaitGroup
	first.Go(func() { b.ours, b.err = ours.ask(ctx, r, w) })
	b.theirs, err = theirs.ask(ctx, r, w)
	first.Wait()
	b.err = errors.Join(b.err, err)
	return b
}

// late reports whether a server was too busy to start a watch before its timeout.
func (b *both) late() bool {
	const over = "context deadline exceeded"
	return b.err == nil && (strings.Contains(b.ours.text(), over) || strings.Contains(b.theirs.text(), over))
}

func (b *both) compare(t *testing.T, r *row) {
	if b.err != nil {
		t.Fatal(b.err)
	}
	because := r.passed
	switch code := b.theirs.Code; {
	case because != "":
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		because = invalid
	case code == http.StatusGatewayTimeout && !strings.Contains(r.query, "continue="):
		because = behind
	}
	if b.ours.passed != (because != "") {
		t.Errorf("kube-apiserver has answered: %v; expected, because: %q", b.ours.passed, because)
	}
	b.compareTexts(t, r)
}

// compareTexts compares the two answers. If the row has an intended difference, the answers must
// have it and no other.
func (b *both) compareTexts(t *testing.T, r *row) {
	if b.err != nil {
		t.Fatal(b.err)
	}
	same := b.ours.text() == b.theirs.text()
	if r.differs == nil {
		if !same {
			t.Error(firstDifference(b.ours, b.theirs))
		}
		return
	}
	if same {
		t.Errorf("it no longer differs: %s", r.differs.why)
	}
	r.differs.hide(b.ours)
	r.differs.hide(b.theirs)
	if b.ours.text() != b.theirs.text() {
		t.Errorf("in addition to %q:\n%s", r.differs.why, firstDifference(b.ours, b.theirs))
	}
}

// axes returns queries with all combinations of the parameters' values. The first element of a
// parameter is its name. An empty value omits the parameter.
func axes(prefix string, parameters ...[]string) (queries []string) {
	queries = []string{prefix}
	for _, values := range parameters {
		name := values[0]
		var longer []string
		for _, q := range queries {
			for _, v := range values[1:] {
				if v == "" {
					longer = append(longer, q)
				} else {
					longer = append(longer, q+"&"+name+"="+v)
				}
			}
		}
		queries = longer
	}
	return queries
}

// rowsFor returns all requests that the tests send for the resource of w.
func rowsFor(w *world) (out []*row) {
	add := func(rows ...row) {
		for _, r := range rows {
			if r.only != "" && r.only != w.gvr.Resource {
				continue
			}
			if r.name == "" {
				r.name = strings.Trim(fmt.Sprint(r.method, " ", r.path, "?", r.query, " ", r.accept, " ", r.gzip), " ")
			}
			out = append(out, &r)
		}
	}
	for _, query := range axes("", []string{"resourceVersion", "", "0", "{then}", "{now}", "{ahead}"},
		[]string{"resourceVersionMatch", "", "Exact", "NotOlderThan", "Bogus"}, []string{"limit", "", "2"}) {
		r := row{query: query}
		if strings.Contains(query, "resourceVersion=0&resourceVersionMatch=Exact") {
			r.passed = forgotten
		}
		add(r)
	}
	for _, query := range axes("watch=true", []string{"resourceVersion", "", "0", "{then}", "{now}", "{ahead}"},
		[]string{"sendInitialEvents", "", "true", "false"}, []string{"resourceVersionMatch", "", "NotOlderThan", "Exact"},
		[]string{"allowWatchBookmarks", "", "true"}) {
		seconds := "1"
		r := row{}
		if strings.Contains(query, "{ahead}") {
			seconds = "4" // longer than a server waits for a resourceVersion
			if strings.Contains(query, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan") {
				r.passed = behind
				if strings.Contains(query, "allowWatchBookmarks=true") {
					r.differs = vary
				}
			}
		}
		r.query = query + "&timeoutSeconds=" + seconds
		add(r)
	}
	add(lists...)
	add(watches...)
	add(gets...)
	add(forms...)
	add(malformed...)
	add(sharded...)
	return out
}
