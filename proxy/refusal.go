package proxy

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/internal/watchcache"
)

// refuse answers a request with an error of the proxy's own, and records that: the upstream knows
// nothing of it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, why error) {
	if s.auditor != nil && !queryTooLong(r.URL) { // nothing is read of a longer query
		parsed, _ := s.requests.lookup(r)
		if rec := s.auditor.refused(r, s.attributesOf(r, parsed.info), why, time.Now()); rec != nil {
			noted := rec.writer(w, false)
			defer noted.end()
			w = noted
		}
	}
	watchcache.WriteError(w, r, why)
}

// refuseUnread refuses a request whose body nobody has read, for why, or because the body does not
// come.
func (s *Server) refuseUnread(w http.ResponseWriter, r *http.Request, why error) {
	if err := s.discardBody(w, r); err != nil {
		why = err
	}
	s.refuse(w, r, why)
}

// attributesOf returns what is known of a request that is not parsed for a review. The user is that
// of a certificate, or of a token that was reviewed before, and else nil.
func (s *Server) attributesOf(r *http.Request, info *request.RequestInfo) *authorizer.AttributesRecord {
	attrs := &authorizer.AttributesRecord{
		Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest, Namespace: info.Namespace, APIGroup: info.APIGroup,
		APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource, Name: info.Name,
	}
	if who, _ := s.cachedCaller(r); who != nil {
		attrs.User = who
	}
	return attrs
}
