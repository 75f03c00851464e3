package apiserver

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// parsePath parses the path of a request for objects. It returns false for any other path, and for
// a path that has empty segments or more segments than a path for objects has.
func parsePath(path string) (q request.Path, ok bool) {
	q, ok = request.ParsePath(path)
	return q, ok && q.Prefix != "proxy" && !q.More && !strings.Contains(strings.Trim(path, "/"), "//")
}

// ServeHTTP answers one request. Because the server requires no credentials, it answers 403 to
// requests that a malicious web page may have sent: requests to a loopback address whose Host is
// neither localhost nor an IP address, and writes from another origin.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// serve answers one request that has passed the check for web pages.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		watchcache.WriteError(w, r, apierrors.NewServiceUnavailable("the server is shutting down"))
		return
	}
	defer s.requests.Done()
	c := s.record(w, r)
	defer c.end() // before requests.Done, so that Close waits for the audit event
	w, done := s.faults.apply(c, r, s.released)
	if done {
		return
	}
	var err error
	if q, ok := parsePath(r.URL.Path); ok {
		err = s.serveObjects(w, r, q)
	} else {
		err = s.serveOther(w, r)
	}
	if err != nil {
		watchcache.WriteError(w, r, err)
	}
}

// serveOther answers requests that are not for objects. It returns an error only if it has not
// written to w.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errMethod()
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 1:
		return s.serveTop(w, r, parts[0])
	case parts[0] == "api" && len(parts) == 2:
		return s.discoverVersion(w, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 2:
		return s.discoverGroup(w, parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		return s.discoverVersion(w, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "openapi":
		return s.serveOpenAPI(w, parts[1:])
	}
	return errPath()
}

func (s *Server) serveTop(w http.ResponseWriter, r *http.Request, name string) error {
	switch name {
	case "api":
		s.discoverRoot(w, r, true)
	case "apis":
		s.discoverRoot(w, r, false)
	case "version":
		writeJSON(w, "application/json", &serverVersion)
	case "healthz", "livez", "readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok"))
	case "metrics":
		s.serveMetrics(w)
	case "":
		writeJSON(w, "application/json", &metav1.RootPaths{Paths: []string{"/api", "/apis", "/healthz", "/livez", "/metrics", "/readyz", "/version"}})
	default:
		return errPath()
	}
	return nil
}

// errPath returns the 404 for an unknown path. Its Status names no object, because an unknown path
// may name neither an object nor a resource.
func errPath() error {
	err := watchcache.NewStatusError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

func errMethod() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// serveObjects answers requests for the objects of one resource. It returns an error only if it has
// not written to w.
func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request, q request.Path) error {
	if v := findReview(q); v != nil {
		return v.serve(w, r)
	}
	res, ok := s.registry.find(q.GVR())
	if !ok {
		return errPath()
	}
	sub := res.find(q.Subresource)
	if q.Subresource != "" && sub == nil && !(q.Subresource == "status" && res.Status) || q.Namespace != "" && !res.Namespaced {
		return errPath()
	}
	collection, oldWatch := q.Name == "", q.Prefix != ""
	if !collection && res.Namespaced && q.Namespace == "" && !oldWatch {
		return errPath()
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case sub != nil:
		return sub.serve(s, w, r, res, q)
	case !read && (oldWatch || collection && res.Namespaced && q.Namespace == ""):
		// These paths support only LIST and WATCH.
		if res.strategy.custom {
			return errPath()
		}
		return errMethod()
	case !read:
		return s.write(w, r, res, q)
	}
	rq, err := request.Parse(r)
	if err == nil {
		res.cache.Serve(w, r, rq)
	}
	return err
}

// write applies a write request and answers it. It returns an error only if it has not written to
// w.
func (s *Server) write(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	if err := res.cache.Accepts(r); err != nil {
		return err
	}
	collection, status := q.Name == "", q.Subresource != ""
	switch {
	case r.Method == http.MethodPost && collection:
		return s.create(w, r, res, q)
	case r.Method == http.MethodPut && !collection:
		return s.put(w, r, res, q)
	case r.Method == http.MethodPatch && !collection:
		return s.patch(w, r, res, q)
	case r.Method == http.MethodDelete && !collection && !status:
		return s.delete(w, r, res, q)
	case r.Method == http.MethodDelete && collection:
		return s.deleteCollection(w, r, res, q)
	}
	return errMethod()
}
