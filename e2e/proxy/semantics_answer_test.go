package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
)

// server is the proxy or kube-apiserver.
type server struct {
	url    string
	client *http.Client
	page   map[string]string // continue token from this server, by resource
}

func newServer(t *testing.T, cfg *rest.Config) *server {
	cfg.DisableCompression = true // each row sets its own Accept-Encoding
	return &server{url: cfg.Host, client: cluster.HTTPClient(t, cfg), page: map[string]string{}}
}

// answer is a server's answer to a request (row), without values that differ between any two
// requests.
type answer struct {
	Code   int
	Header map[string]string
	Bodies []any // one element for each page; for a watch, one element with all events
	// passed says that kube-apiserver answered, directly or through the proxy. Its responses have an
	// Audit-Id.
	passed bool
}

// headers are the response headers that must be equal in the answers of the proxy and of
// kube-apiserver.
var headers = []string{"Content-Type", "Cache-Control", "Content-Encoding", "Retry-After", "Vary", "Warning", "Allow"}

// ask sends a request (row), and the requests for its further pages. It returns all responses as
// one answer.
func (s *server) ask(ctx context.Context, r *row, w *world) (*answer, error) {
	a := &answer{}
	for next := "start"; next != ""; {
		query := r.query
		if next != "start" {
			query = nextPage.ReplaceAllString(query, "") + "&continue=" + next
		}
		body, err := s.once(ctx, r, w, query, a)
		if err != nil {
			return nil, err
		}
		if body == nil {
			break
		}
		next = tidy(body, w, r.exact())
		a.Bodies = append(a.Bodies, body)
	}
	return a, nil
}

// nextPage matches the query parameters that a request for a further page must not have.
var nextPage = regexp.MustCompile(`(^|&)(resourceVersion|resourceVersionMatch|continue)=[^&]*`)

func (s *server) once(ctx context.Context, r *row, w *world, query string, a *answer) (map[string]any, error) {
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+w.fill(r.where(w), s)+"?"+w.fill(query, s), nil)
	if err != nil {
		return nil, err
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.gzip != "" {
		req.Header.Set("Accept-Encoding", r.gzip)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a.Code, a.Header, a.passed = resp.StatusCode, map[string]string{}, resp.Header.Get("Audit-Id") != ""
	for _, name := range headers {
		if v := resp.Header.Values(name); len(v) > 0 {
			a.Header[name] = strings.Join(v, ", ")
		}
	}
	var in io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(resp.Body); err != nil {
			return nil, err
		}
	}
	kind := resp.Header.Get("Content-Type")
	if r.watch() && resp.StatusCode == http.StatusOK && method == http.MethodGet {
		return readEvents(in, kind)
	}
	raw, err := io.ReadAll(in)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	return decode(raw, kind)
}

// formats decodes the protobuf objects in the answers.
var formats = func() runtime.Decoder {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return serializer.NewCodecFactory(s).UniversalDeserializer()
}()

// decode decodes one JSON or protobuf object into a map. For other content types, the map has the
// text under the key "text".
func decode(raw []byte, contentType string) (map[string]any, error) {
	out := map[string]any{}
	switch {
	case strings.HasPrefix(contentType, "application/vnd.kubernetes.protobuf"):
		object, _, err := formats.Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	case strings.HasPrefix(contentType, "application/json"):
		return out, json.Unmarshal(raw, &out)
	}
	return map[string]any{"text": string(raw)}, nil
}

// readEvents reads the events of a watch until it ends.
func readEvents(in io.Reader, contentType string) (map[string]any, error) {
	events := []any{}
	var err error
	if strings.HasPrefix(contentType, "application/json") {
		for d := json.NewDecoder(in); err == nil; {
			event := map[string]any{}
			if err = d.Decode(&event); err == nil {
				events = append(events, event)
			}
		}
	} else {
		for err == nil {
			var event map[string]any
			if event, err = readFrame(in, contentType); err == nil {
				events = append(events, event)
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return map[string]any{"events": events}, nil
}

func readFrame(in io.Reader, contentType string) (map[string]any, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, fmt.Errorf("a frame is not whole: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	var event metav1.WatchEvent
	frame = bytes.TrimPrefix(frame, []byte("k8s\x00"))
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(frame); err == nil && envelope.Kind == "WatchEvent" {
		frame = envelope.Raw
	}
	if err := event.Unmarshal(frame); err != nil {
		return nil, err
	}
	object, err := decode(event.Object.Raw, contentType)
	return map[string]any{"type": event.Type, "object": object}, err
}

// tidy replaces the values in a body that differ between any two requests. These are continue
// tokens, and the resourceVersion of a list or bookmark if it may be newer than the last change. It
// returns the original continue token, or "".
func tidy(body map[string]any, w *world, exact bool) (next string) {
	if message, ok := body["message"].(string); ok {
		body["message"] = currently.ReplaceAllString(message, "current: …")
	}
	if events, ok := body["events"].([]any); ok {
		kept := events[:0]
		for _, e := range events {
			if e := e.(map[string]any); tidyEvent(e, w) {
				kept = append(kept, e)
			}
		}
		body["events"] = kept
		return ""
	}
	meta, ok := body["metadata"].(map[string]any)
	kind, _ := body["kind"].(string)
	if !ok || !strings.HasSuffix(kind, "List") && kind != "Table" && kind != "Status" {
		return ""
	}
	if !exact {
		w.tidyVersion(meta)
	}
	if kind == "Table" {
		tidyAges(body)
	}
	token, _ := meta["continue"].(string)
	switch {
	case token == "": // lists of custom resources have an empty token instead of none
		delete(meta, "continue")
	default:
		meta["continue"] = "a token"
		if kind != "Status" {
			next = token
		}
	}
	return next
}

var currently = regexp.MustCompile(`current: \d+`)

// tidyEvent does what tidy does, for a watch event. It returns false for a periodic bookmark, which
// is ignored.
func tidyEvent(e map[string]any, w *world) bool {
	object, _ := e["object"].(map[string]any)
	if e["type"] != "BOOKMARK" {
		tidy(object, w, true)
	}
	if e["type"] != "BOOKMARK" {
		return true
	}
	meta, _ := object["metadata"].(map[string]any)
	if meta["annotations"] == nil {
		return false
	}
	w.tidyVersion(meta)
	// In a bookmark's object, the proxy and kube-apiserver may write different empty fields.
	for key, value := range object {
		if empty(value) {
			delete(object, key)
		}
	}
	delete(meta, "creationTimestamp")
	return true
}

// tidyAges replaces the ages in the cells of a table.
func tidyAges(table map[string]any) {
	rows, _ := table["rows"].([]any)
	for _, r := range rows {
		cells, _ := r.(map[string]any)["cells"].([]any)
		for i := range cells {
			if text, ok := cells[i].(string); ok && age.MatchString(text) {
				cells[i] = "an age"
			}
		}
	}
}

var age = regexp.MustCompile(`^\d+[smhd]$`)

// empty reports whether a value is nil, an empty list, or an object with only empty values.
func empty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return value == nil
}

// tidyVersion replaces a resourceVersion that is not older than the last change.
func (w *world) tidyVersion(meta map[string]any) {
	if rv, err := strconv.ParseUint(fmt.Sprint(meta["resourceVersion"]), 10, 64); err == nil && rv >= w.now {
		meta["resourceVersion"] = "not older than the last change"
	}
}

// text returns the answer as indented JSON.
func (a *answer) text() string {
	raw, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// firstDifference returns the lines around the first difference between two answers.
func firstDifference(ours, theirs *answer) string {
	a, b := strings.Split(ours.text(), "\n"), strings.Split(theirs.text(), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-3)
			return fmt.Sprintf("the proxy:\n%s\nkube-apiserver:\n%s",
				strings.Join(a[from:min(len(a), i+5)], "\n"), strings.Join(b[from:min(len(b), i+5)], "\n"))
		}
	}
	return fmt.Sprintf("one has %d lines and the other %d", len(a), len(b))
}
