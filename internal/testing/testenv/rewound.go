package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

const (
	// beforeRestore is the resourceVersion before the restore, afterRestore the one after it, and
	// overtaken one that is newer than both.
	beforeRestore, afterRestore, overtaken = 100, 60, 110
)

// Rewound is an API server that is restored from a backup. It serves one ConfigMap and one Secret
// as JSON, and is its own http.RoundTripper. It sends no events. Safe for concurrent use.
type Rewound struct {
	mu      sync.Mutex
	version uint64
	label   string // of each object
	lists   map[string]int
	watches map[string][]*io.PipeWriter // which end with their requests, or by Cut
}

// NewRewound returns a server whose objects have the label state=before.
func NewRewound() *Rewound {
	return &Rewound{version: beforeRestore, label: "before", lists: map[string]int{}, watches: map[string][]*io.PipeWriter{}}
}

// Restore sets the server back: its objects have the label state=after. With the next list it
// reaches the earlier versions again.
func (s *Rewound) Restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.label = afterRestore, "after"
}

// Cut breaks the watches of a resource. Other watches stay open and silent.
func (s *Rewound) Cut(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches[resource] {
		w.CloseWithError(io.ErrUnexpectedEOF)
	}
	s.watches[resource] = nil
}

// Lists returns how many times a resource was listed.
func (s *Rewound) Lists(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[resource]
}

// RoundTrip implements http.RoundTripper.
func (s *Rewound) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, q := path.Base(r.URL.Path), r.URL.Query()
	asked := resourceversion.Number(q.Get("resourceVersion"))
	switch {
	case resource == "version":
		return s.answer(r, http.StatusOK, map[string]string{"major": "1", "minor": "37"})
	case asked > s.version:
		return s.answer(r, http.StatusGatewayTimeout, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
		})
	case q.Has("watch"):
		return s.watch(r, resource), nil
	}
	defer s.listed(resource, q.Get("limit") == "1")
	kind := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[resource]
	return s.answer(r, http.StatusOK, list{
		Metadata: metav1.ListMeta{ResourceVersion: resourceversion.Format(s.version)}, APIVersion: "v1", Kind: kind + "List",
		Items: []metav1.PartialObjectMetadata{{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "o", UID: "u", ResourceVersion: "50", Labels: map[string]string{"state": s.label},
		}}},
	})
}

// list is a list in kube-apiserver's field order.
type list struct {
	Kind       string                         `json:"kind"`
	APIVersion string                         `json:"apiVersion"`
	Metadata   metav1.ListMeta                `json:"metadata"`
	Items      []metav1.PartialObjectMetadata `json:"items"`
}

// listed counts a list, unless it is a probe. The caller holds the lock.
func (s *Rewound) listed(resource string, probe bool) {
	if probe {
		return
	}
	s.lists[resource]++
	if s.version == afterRestore {
		s.version = overtaken
	}
}

// CloseIdleConnections does nothing: there are none.
func (s *Rewound) CloseIdleConnections() {}

// watch opens a watch. The caller holds the lock.
func (s *Rewound) watch(r *http.Request, resource string) *http.Response {
	in, out := io.Pipe()
	context.AfterFunc(r.Context(), func() { out.CloseWithError(r.Context().Err()) })
	s.watches[resource] = append(s.watches[resource], out)
	return response(r, http.StatusOK, in)
}

func (s *Rewound) answer(r *http.Request, code int, body any) (*http.Response, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("rewound: %w", err)
	}
	return response(r, code, io.NopCloser(strings.NewReader(string(b)))), nil
}

func response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}
