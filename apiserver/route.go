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
// one with empty segments or too many.
func parsePath(path string) (q request.Path, ok bool) {
	q, ok = request.ParsePath(path)
	return q, ok && q.Prefix != "proxy" && !q.More && !strings.Contains(strings.Trim(path, "/"), "//")
}

// ServeHTTP answers one request. It requires no credentials. So it answers 403 to web pages: to
// requests to a loopback address under another name than localhost or an IP address, and to writes
// from another origin.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// serve answers one request of a program.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w, done := s.faults.apply(w, r, s.released)
	if done {
		return
	}
	if !s.begin() {
		watchcache.WriteError(w, r, apierrors.NewServiceUnavailable("the server is shutting down"))
		return
	}
	defer s.requests.Done()
	if q, ok := parsePath(r.URL.Path); ok {
		s.serveObjects(w, r, q)
		return
	}
	s.serveOther(w, r)
}

// serveOther answers requests that are not for objects.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		watchcache.WriteError(w, r, errMethod())
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 1:
		s.serveTop(w, r, parts[0])
	case parts[0] == "api" && len(parts) == 2:
		s.discoverVersion(w, r, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 2:
		s.discoverGroup(w, r, parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		s.discoverVersion(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "openapi":
		s.serveOpenAPI(w, r, parts[1:])
	default:
		notFound(w, r)
	}
}

func (s *Server) serveTop(w http.ResponseWriter, r *http.Request, name string) {
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
	case "":
		writeJSON(w, "application/json", &metav1.RootPaths{Paths: []string{"/api", "/apis", "/healthz", "/livez", "/readyz", "/version"}})
	default:
		notFound(w, r)
	}
}

// notFound answers 404 for an unknown path. It names no object, because even the resource may be
// unknown.
func notFound(w http.ResponseWriter, r *http.Request) {
	watchcache.WriteError(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Details: &metav1.StatusDetails{},
		Message: "the server could not find the requested resource",
	}})
}

func errMethod() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// serveObjects answers requests for the objects of one resource.
func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request, q request.Path) {
	if v := findReview(q); v != nil {
		answerError(w, r, v.serve(w, r))
		return
	}
	res, release, ok := s.registry.use(q.GVR())
	if !ok {
		notFound(w, r)
		return
	}
	defer release()
	sub := res.find(q.Subresource)
	if q.Subresource != "" && sub == nil && !(q.Subresource == "status" && res.Status) || q.Namespace != "" && !res.Namespaced {
		notFound(w, r)
		return
	}
	collection, oldWatch := q.Name == "", q.Prefix != ""
	if !collection && res.Namespaced && q.Namespace == "" && !oldWatch {
		notFound(w, r)
		return
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case sub != nil:
		answerError(w, r, sub.serve(s, w, r, res, q))
	case !read && (oldWatch || collection && res.Namespaced && q.Namespace == ""):
		res.refuseWrite(w, r)
	case read:
		rq, err := request.Parse(r)
		if err != nil {
			watchcache.WriteError(w, r, err)
			return
		}
		res.cache.Serve(w, r, rq)
	default:
		answerError(w, r, s.write(w, r, res, q))
	}
}

// answerError answers a request with an error. It does nothing for nil: then the request was
// answered.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		watchcache.WriteError(w, r, err)
	}
}

// refuseWrite answers a write to a path that supports only LIST and WATCH: across namespaces, and
// below watch/.
func (res *servedResource) refuseWrite(w http.ResponseWriter, r *http.Request) {
	if res.strategy.custom {
		notFound(w, r)
		return
	}
	watchcache.WriteError(w, r, errMethod())
}

// write does a write and answers it. It returns an error only if it has written nothing.
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
