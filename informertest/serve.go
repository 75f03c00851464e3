package informertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// waitForVersion is how long the server waits for its state to reach the resourceVersion of a LIST.
// kube-apiserver waits equally long.
const waitForVersion = 3 * time.Second

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	op, namespace := operation(r)
	a := s.note(Request{Op: op, Path: r.URL.Path, Query: q, At: time.Now()})
	enc := accepted(r.Header)
	if !pause(r, a.Delay) {
		return
	}
	if a.Hang {
		<-r.Context().Done()
		return
	}
	if a.Status != nil && !a.InStream {
		writeStatus(w, enc, a.Status)
		return
	}
	if a.Page {
		w.Header().Set("Content-Type", "text/html")
		// Write fails only if the client has disconnected.
		_, _ = w.Write([]byte("<html><body>Please log in</body></html>"))
		return
	}
	switch op {
	case Version:
		s.serveVersion(w)
	case Namespaces:
		s.serveNamespaces(w, enc)
	case List:
		s.serveList(w, r, namespace, enc, a)
	case Watch:
		s.serveWatch(w, r, enc, a)
	default:
		writeStatus(w, enc, NotFound())
	}
}

// operation returns the operation of a request and, for a LIST, the namespace; "" means all
// namespaces.
func operation(r *http.Request) (op Op, namespace string) {
	info := request.InfoOf(http.MethodGet, r.URL)
	switch at := info.GVR(); {
	case r.URL.Path == "/version":
		return Version, ""
	case at == podsResource && info.Verb == "watch" && info.Namespace == "":
		return Watch, ""
	case at == podsResource && info.Verb == "list":
		return List, info.Namespace
	case at == namespacesResource && info.Verb == "list":
		return Namespaces, ""
	}
	return Unknown, ""
}

var (
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
	namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// pause waits for d and returns true. It returns false if the client disconnects first.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

// accepted returns the server's encoding that a client prefers, from its Accept header.
func accepted(h http.Header) encoding {
	a := request.ParseAccept(h)
	mt, _ := a.Negotiate(func(mr request.MediaRange) bool { return mr.Shape != request.Table })
	enc := asJSON
	if mt.Encoding == wire.Protobuf {
		enc = asProtobuf
	}
	if mt.Shape == request.MetadataOnly {
		enc += asJSONMetadata
	}
	return enc
}

func writeStatus(w http.ResponseWriter, enc encoding, status *metav1.Status) {
	w.Header().Set("Content-Type", enc.mediaType())
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	// Write fails only if the client has disconnected.
	_, _ = w.Write(statusBody(enc, status))
}

func (s *Server) serveVersion(w http.ResponseWriter) {
	s.mu.Lock()
	minor := strconv.Itoa(s.minor)
	s.mu.Unlock()
	w.Header().Set("Content-Type", typeJSON)
	// Encode fails only if the client has disconnected.
	_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": minor, "gitVersion": "v1." + minor + ".0"})
}

func (s *Server) serveNamespaces(w http.ResponseWriter, enc encoding) {
	s.mu.Lock()
	meta := metav1.ListMeta{ResourceVersion: resourceversion.Format(s.rv)}
	var names []string
	for _, e := range s.state("") {
		if n := len(names); n == 0 || names[n-1] != e.pod.Namespace {
			names = append(names, e.pod.Namespace)
		}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", enc.mediaType())
	// Write fails only if the client has disconnected.
	_, _ = w.Write(namespacesBody(enc, meta, names))
}

// page is the part of a list that the server has not sent yet.
type page struct {
	rv    uint64
	items []*entry
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, namespace string, enc encoding, a Answer) {
	q := r.URL.Query()
	if status := refuseList(q); status != nil {
		writeStatus(w, enc, status)
		return
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	p, status := s.firstPage(namespace, q, limit)
	if status != nil && status.Code == http.StatusGatewayTimeout {
		if !pause(r, waitForVersion) {
			return
		}
		p, status = s.firstPage(namespace, q, limit)
	}
	if status != nil {
		writeStatus(w, enc, status)
		return
	}
	meta := metav1.ListMeta{ResourceVersion: resourceversion.Format(p.rv)}
	if limit > 0 && limit < len(p.items) && q.Get("resourceVersion") != "0" {
		meta.Continue = s.keep(page{p.rv, p.items[limit:]})
		meta.RemainingItemCount = new(int64(len(p.items) - limit))
		p.items = p.items[:limit]
	}
	w.Header().Set("Content-Type", enc.mediaType())
	s.mu.Lock()
	keys := s.keys
	s.mu.Unlock()
	writeList(w, r, listBody(enc, meta, p.items, keys), a)
}

// firstPage returns the objects that a LIST selects, which serveList cuts to the limit. If the LIST
// has a continue token, these are the objects after the previous page. As with kube-apiserver, a
// LIST with a limit and a resourceVersion requests exactly that version, unless it has a
// resourceVersionMatch.
func (s *Server) firstPage(namespace string, q url.Values, limit int) (page, *metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token := q.Get("continue"); token != "" {
		p, ok := s.pages[token]
		if !ok {
			return page{}, failure(http.StatusGone, metav1.StatusReasonExpired, "the provided continue parameter is too old")
		}
		return p, nil
	}
	n, match := resourceversion.Number(q.Get("resourceVersion")), q.Get("resourceVersionMatch")
	switch {
	case n > s.rv:
		return page{}, TooLarge()
	case n > 0 && n < s.rv && (match == exact || match == "" && limit > 0):
		return page{}, Gone() // the server stores no older states
	}
	return page{s.rv, s.state(namespace)}, nil
}

// keep stores the part of a list that follows the current page, and returns a continue token for
// it.
func (s *Server) keep(p page) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := fmt.Sprint(p.items[0].key, " and ", len(p.items)-1, " more") // unique within a list
	token := request.ContinueToken{ResourceVersion: int64(p.rv), Start: start}.String()
	s.pages[token] = p
	return token
}

// writeList writes the pieces of a body. It breaks the connection, stalls or waits as a.Cut,
// a.Stall and a.Hold require. It stops if the client disconnects.
func writeList(w http.ResponseWriter, r *http.Request, pieces [][]byte, a Answer) {
	out := http.NewResponseController(w)
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	left := size + 1 // bytes until the cut
	if a.Cut > 0 {
		left = int(float64(size) * a.Cut)
	}
	stall := size + 1 // bytes until the stall
	if a.Stall != nil {
		stall = *a.Stall
	}
	for i, p := range pieces {
		if stall < len(p) {
			_, _ = w.Write(p[:stall])
			_ = out.Flush()
			<-r.Context().Done()
			return
		}
		stall -= len(p)
		if a.Hold != nil && i == len(pieces)-2 {
			_ = out.Flush()
			select {
			case <-a.Hold:
			case <-r.Context().Done():
				return
			}
		}
		if left < len(p) {
			_, _ = w.Write(p[:left])
			_ = out.Flush()
			panic(http.ErrAbortHandler)
		}
		left -= len(p)
		if _, err := w.Write(p); err != nil {
			return
		}
	}
}
