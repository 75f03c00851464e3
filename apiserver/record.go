package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/weirproject/weir/internal/core/request"
)

// recorder counts requests for /metrics, and writes the audit log. It stores one count per resource
// that the server has, verb, subresource and status code, and counts all other requests together.
type recorder struct {
	started time.Time
	audit   io.Writer // nil: no audit log

	mu     sync.Mutex
	counts map[requestLabels]*requestCount
	open   map[schema.GroupVersionResource]int // watches
	failed int64                               // audit events that could not be written
}

// requestLabels are the labels of the metrics of requests.
type requestLabels struct {
	schema.GroupVersionResource
	subresource, verb string
	code              int
}

func (l requestLabels) String() string {
	return fmt.Sprintf("group=%q,version=%q,resource=%q,subresource=%q,verb=%q,code=\"%d\"",
		l.Group, l.Version, l.Resource, l.subresource, l.verb, l.code)
}

// requestCount counts requests with the same labels.
type requestCount struct {
	n, bytes int64
	took     time.Duration
}

// record is the ResponseWriter of one request. It records the request.
type record struct {
	http.ResponseWriter
	*recorder
	info  *request.Info
	watch bool // the request is a WATCH of a resource that the server has
	known bool // the request is for such a resource
	began time.Time
	event map[string]any // of the audit log; nil: none
	code  int            // 0 before the response
	bytes int64
}

// record returns the ResponseWriter that records a request. The caller calls end.
func (s *Server) record(w http.ResponseWriter, r *http.Request) *record {
	c := &record{ResponseWriter: w, recorder: &s.recorder, info: request.InfoOf(r.Method, r.URL), began: time.Now()}
	_, c.known = s.registry.find(c.info.GVR())
	c.watch = c.known && c.info.Verb == "watch"
	c.opened(1)
	if c.audit != nil {
		c.event = auditEvent(r, c.info, c.began)
	}
	return c
}

// opened adds n to the open watches if the request is a watch.
func (c *record) opened(n int) {
	if c.watch {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[c.info.GVR()] += n
	}
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (c *record) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements [http.ResponseWriter]. It writes the audit event of a watch that starts.
func (c *record) WriteHeader(code int) {
	if c.code == 0 {
		if c.code = code; c.watch {
			c.write("ResponseStarted")
		}
	}
	c.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (c *record) Write(p []byte) (int, error) {
	if c.code == 0 {
		c.WriteHeader(http.StatusOK)
	}
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// end counts the request and writes its last audit event.
func (c *record) end() {
	c.code = cmp.Or(c.code, http.StatusOK)
	c.write("ResponseComplete")
	c.opened(-1)
	l := requestLabels{verb: otherVerb, code: c.code}
	// The subresources of refused requests are a client's text, and would add labels without bound.
	if c.known && c.code != http.StatusNotFound && c.code != http.StatusMethodNotAllowed {
		l.GroupVersionResource, l.subresource, l.verb = c.info.GVR(), c.info.Subresource, metricVerb(c.info.Verb)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts[l]
	if n == nil {
		n = &requestCount{}
		c.counts[l] = n
	}
	n.n, n.bytes, n.took = n.n+1, n.bytes+c.bytes, n.took+time.Since(c.began)
}

// otherVerb is the verb in metrics of requests that have no verb, or an unknown one.
const otherVerb = "other"

// metricVerb returns the name of a verb in kube-apiserver's metrics.
func metricVerb(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "get", "list", "watch", "patch", "delete", "deletecollection":
		return strings.ToUpper(verb)
	}
	return otherVerb // the methods of requests are unlimited
}

// maxAgent limits the recorded length of a user agent, as in kube-apiserver.
const maxAgent = 1024

// auditEvent returns the Event of audit.k8s.io/v1 of a request, at the level Metadata, without the
// stage.
func auditEvent(r *http.Request, i *request.Info, began time.Time) map[string]any {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	agent := r.UserAgent()
	e := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": uuid.NewUUID(),
		"requestURI": r.URL.RequestURI(), "verb": i.Verb, "user": admin, "sourceIPs": []string{ip},
		"userAgent": agent[:min(len(agent), maxAgent)], "requestReceivedTimestamp": began.UTC(),
	}
	if as := r.Header.Get("Impersonate-User"); as != "" {
		e["impersonatedUser"] = authenticationv1.UserInfo{Username: as, Groups: r.Header.Values("Impersonate-Group")}
	}
	if i.OfResource {
		e["objectRef"] = map[string]string{
			"apiGroup": i.Group, "apiVersion": i.Version, "resource": i.Resource, "subresource": i.Subresource,
			"namespace": i.ReviewNamespace(), "name": i.Name,
		}
	}
	return e
}

// write writes the event of a stage on one line. It counts an event that cannot be written; the
// server answers the request in any case.
func (c *record) write(stage string) {
	if c.event == nil {
		return
	}
	c.event["stage"], c.event["stageTimestamp"] = stage, time.Now().UTC()
	c.event["responseStatus"] = map[string]any{"metadata": struct{}{}, "code": c.code}
	line, err := json.Marshal(c.event)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		_, err = c.audit.Write(append(line, '\n'))
	}
	if err != nil {
		c.failed++
	}
}

// serveMetrics answers /metrics in Prometheus' text format, with kube-apiserver's names.
func (s *Server) serveMetrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	b := &bytes.Buffer{} // not w: a client that does not read must not block while locks are held
	fmt.Fprintf(b, "kubernetes_build_info{git_version=%q} 1\nprocess_start_time_seconds %.3f\n",
		serverVersion.GitVersion, float64(s.recorder.started.UnixMilli())/1000)
	s.recorder.writeMetrics(b)
	seen := map[schema.GroupResource]bool{}
	for _, res := range s.registry.all() {
		of := fmt.Sprintf("group=%q,resource=%q", res.Group, res.GroupVersionResource.Resource)
		if m := res.storage.store.Memory(); !seen[res.GroupResource()] { // versions share a storage
			fmt.Fprintf(b, "apiserver_resource_objects{%s} %d\napiserver_resource_size_estimate_bytes{%[1]s} %[3]d\n", of, m.Objects, m.Raw)
			seen[res.GroupResource()] = true
		}
		st, of := res.cache.Stats(), fmt.Sprintf("%s,version=%q", of, res.Version)
		var lists, fetched, returned uint64
		for _, ix := range st.Indexes {
			lists, fetched, returned = lists+ix.Lists, fetched+ix.Fetched, returned+ix.Returned
		}
		fmt.Fprintf(b, "apiserver_watch_events_total{%s} %d\napiserver_init_events_total{%[1]s} %[3]d\napiserver_terminated_watchers_total{%[1]s} %[4]d\n",
			of, st.Events, st.InitialEvents, st.Stalled)
		const prefix = "apiserver_storage_list_"
		fmt.Fprintf(b, prefix+"total{%s,storage=\"watchcache\"} %d\n"+prefix+"fetched_objects_total{%[1]s,storage=\"watchcache\"} %[3]d\n"+
			prefix+"returned_objects_total{%[1]s,storage=\"watchcache\"} %[4]d\n", of, lists, fetched, returned)
	}
	_, _ = b.WriteTo(w) // an error means that the client has disconnected
}

// writeMetrics writes the metrics of requests.
func (rec *recorder) writeMetrics(w *bytes.Buffer) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for l, n := range rec.counts {
		fmt.Fprintf(w, "apiserver_request_total{%s} %d\napiserver_request_duration_seconds_sum{%[1]s} %[3]g\napiserver_response_sizes_sum{%[1]s} %[4]d\n",
			l, n.n, n.took.Seconds(), n.bytes)
	}
	for r, n := range rec.open {
		fmt.Fprintf(w, "apiserver_longrunning_requests{group=%q,version=%q,resource=%q,verb=\"WATCH\"} %d\n", r.Group, r.Version, r.Resource, n)
	}
	fmt.Fprintf(w, "apiserver_audit_error_total %d\n", rec.failed)
}
