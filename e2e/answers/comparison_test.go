package answers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	yamlType     = "application/yaml"

	metadataOf   = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// listAccepts are the Accept headers of LISTs. objectAccepts are the Accept headers of GETs and
// WATCHes.
var (
	listAccepts   = []string{jsonType, protobufType, yamlType, jsonType + metadataList, protobufType + metadataList, jsonType + metadataList + "beta1", protobufType + ", " + jsonType}
	objectAccepts = []string{jsonType, protobufType, yamlType, jsonType + metadataOf, protobufType + metadataOf, protobufType + metadataOf + "beta1", protobufType + ", " + jsonType}
)

// comparison compares the answers of the proxy (ours) and of kube-apiserver (theirs).
type comparison struct {
	ours, theirs *side

	mu       sync.Mutex
	faults   map[string]int // differences, by verb, resource and media type
	compared int
	cached   int // number of compared answers that the proxy gave from its cache
}

// fault reports a difference as an error of the test. It reports only the first difference of each
// verb, resource and media type.
func (c *comparison) fault(t *testing.T, what string, r *resource, accept, format string, args ...any) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := fmt.Sprint(what, r, accept)
	if c.faults[kind]++; c.faults[kind] == 1 {
		t.Errorf("%s of %s as %s: %s", what, r, accept, fmt.Sprintf(format, args...))
	}
}

// both sends a request to the proxy and to kube-apiserver, and compares the answers. For a WATCH,
// events is the number of events to compare; otherwise events is 0.
func (c *comparison) both(t *testing.T, ctx context.Context, what string, r *resource, target, accept string, events int) {
	t.Helper()
	ours, err := c.ours.ask(ctx, target, accept, events)
	if err == nil {
		var theirs *answer
		if theirs, err = c.theirs.ask(ctx, target, accept, events); err == nil {
			c.same(t, what, r, accept, ours, theirs)
			return
		}
	}
	c.fault(t, what, r, accept, "%s: %v", target, err)
}

// same compares the codes, media types and bytes of two answers. It also checks that the proxy
// answered from its cache, unless r.forwarded says that it forwards the read.
func (c *comparison) same(t *testing.T, what string, r *resource, accept string, ours, theirs *answer) {
	t.Helper()
	c.mu.Lock()
	c.compared++
	if ours.cached {
		c.cached++
	}
	c.mu.Unlock()
	if ours.code != theirs.code || ours.mediaType != theirs.mediaType {
		c.fault(t, what, r, accept, "the proxy answers %d in %s, kube-apiserver %d in %s:\n%.500q\n%.500q", ours.code, ours.mediaType, theirs.code, theirs.mediaType, ours.parts, theirs.parts)
		return
	}
	if ours.code == http.StatusOK && ours.cached == r.forwarded(accept) {
		c.fault(t, what, r, accept, "answered from the cache: %v", ours.cached)
	}
	if len(ours.parts) != len(theirs.parts) {
		c.fault(t, what, r, accept, "%d events from the proxy, %d from kube-apiserver", len(ours.parts), len(theirs.parts))
	}
	for i := range min(len(ours.parts), len(theirs.parts)) {
		if text := difference(ours.parts[i], theirs.parts[i]); text != "" {
			c.fault(t, what, r, accept, "%s", text)
		}
	}
}

// difference describes where two texts start to differ. It returns "" if they are equal.
func difference(ours, theirs []byte) string {
	if bytes.Equal(ours, theirs) {
		return ""
	}
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(0, at-100):min(len(b), at+160)] }
	return fmt.Sprintf("different from byte %d of %d and %d on:\nproxy          %q\nkube-apiserver %q", at, len(ours), len(theirs), around(ours), around(theirs))
}

// listed waits until the proxy and kube-apiserver return the same resourceVersions of the compared
// objects. If the proxy caches the resource, exactly the objects with the given names must exist.
// listed returns a resourceVersion that both the proxy and kube-apiserver can serve.
func (c *comparison) listed(t *testing.T, ctx context.Context, r *resource, names ...string) (version string) {
	t.Helper()
	var newest map[string]string
	testenv.Eventually(t, ctx, r.String()+" are the same on both sides", func() bool {
		var err error
		if _, newest, err = c.theirs.versions(ctx, r.path()); err != nil {
			t.Fatal(err)
		}
		at, ours, err := c.ours.versions(ctx, r.path()+"?resourceVersion=0")
		check.NoError(t, err)
		version = at
		for _, name := range []string{kept, changed, gone, made} {
			if r.GroupVersionResource == definitions {
				continue
			}
			if ours[name] != newest[name] || r.cached() && slices.Contains(names, name) != (ours[name] != "") {
				return false
			}
		}
		return ours[""] == "cached" || !r.cached()
	})
	return version
}

// versions sends a LIST of metadata. It returns the list's resourceVersion, and the
// resourceVersions of the objects by name. If the proxy answered from its cache, the map also has
// the value "cached" for the empty name.
func (s *side) versions(ctx context.Context, target string) (version string, of map[string]string, err error) {
	a, err := s.ask(ctx, target, jsonType+metadataList, 0)
	if err != nil {
		return "", nil, err
	}
	type metadata struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	var list struct {
		metadata
		Items []metadata
	}
	if err := json.Unmarshal(a.parts[0], &list); err != nil {
		return "", nil, err
	}
	of = map[string]string{}
	if a.cached {
		of[""] = "cached"
	}
	for i := range list.Items {
		of[list.Items[i].Metadata.Name] = list.Items[i].Metadata.ResourceVersion
	}
	return list.Metadata.ResourceVersion, of, nil
}

// side is the proxy or kube-apiserver.
type side struct {
	host, token string
	client      *http.Client
}

func newSide(t *testing.T, cfg *rest.Config) *side {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return &side{cfg.Host, cfg.BearerToken, cluster.HTTPClient(t, cfg)}
}

type answer struct {
	code      int
	mediaType string
	// parts has one element for each event of a WATCH. For other requests, its only element is the
	// body.
	parts  [][]byte
	cached bool
}

// ask sends a GET. If events is not 0, the GET is a WATCH, and ask returns after that many events
// of the compared objects.
func (s *side) ask(ctx context.Context, target, accept string, events int) (*answer, error) {
	if events == 0 {
		return s.read(ctx, target, accept, nil)
	}
	return s.read(ctx, target, accept, func(frame []byte, n int) (take, last bool) {
		take = bytes.Contains(frame, []byte(prefix))
		return take, take && n == events-1
	})
}

// read sends a GET. If choose is not nil, the GET is a WATCH, and read calls choose for each event.
// The parameter n of choose is the number of events that the answer already contains. choose
// returns whether to add the event to the answer, and whether to stop reading.
func (s *side) read(ctx context.Context, target, accept string, choose func(frame []byte, n int) (take, last bool)) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a WATCH
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{code: resp.StatusCode, mediaType: resp.Header.Get("Content-Type"), cached: resp.Header.Get("Age") != ""}
	if choose == nil || a.code != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		a.parts = [][]byte{body}
		return a, err
	}
	for next, last := frames(resp), false; !last; {
		frame, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("after %d events: %w", len(a.parts), err)
		}
		var take bool
		if take, last = choose(frame, len(a.parts)); take {
			a.parts = append(a.parts, frame)
		}
	}
	return a, nil
}

// bookmark sends a WATCH, and returns the bookmark that ends the initial events. It replaces the
// bookmark's resourceVersion by 0, because the proxy and kube-apiserver send different ones.
func (s *side) bookmark(ctx context.Context, target, accept string) (*answer, error) {
	a, err := s.read(ctx, target, accept, func(frame []byte, n int) (take, last bool) {
		end := bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey))
		return end, end
	})
	if err != nil || a.code != http.StatusOK {
		return a, err
	}
	if len(a.parts) == 0 {
		return a, errors.New("no bookmark ends the initial events")
	}
	enc := wire.JSON
	if a.mediaType != jsonType {
		enc = wire.Protobuf
	}
	event, err := wire.NewWatchReader(bytes.NewReader(a.parts[0]), enc, wire.Limits{}).Next()
	if err != nil {
		return a, err
	}
	var m wire.Meta
	if err := wire.ReadMeta(enc, event.Object, &m); err != nil {
		return a, err
	}
	object, err := wire.AppendWithResourceVersion(nil, enc, event.Object, "0")
	if err == nil && enc == wire.Protobuf {
		a.parts[0] = wire.AppendEvent(nil, enc, event.Type, event.TypeMeta, object)
	} else if err == nil {
		a.parts[0] = bytes.Replace(a.parts[0], event.Object, object, 1)
	}
	return a, err
}

// frames returns a function that reads the bytes of the next event of a WATCH.
func frames(resp *http.Response) func() ([]byte, error) {
	in := bufio.NewReader(resp.Body)
	if resp.Header.Get("Content-Type") == jsonType {
		return func() ([]byte, error) { return in.ReadBytes('\n') }
	}
	return func() ([]byte, error) {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil, err
		}
		frame := append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
		_, err := io.ReadFull(in, frame[len(size):])
		return frame, err
	}
}
