package proxyfuzz

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is a request to the proxy and to kube-apiserver. Its target has placeholders for values
// that differ between runs (see [world.fillIn]).
type request struct {
	number uint64
	method string
	target string // path and query, with placeholders
	header http.Header
	body   string
	caller caller
	http1  bool
}

// requestOf returns a random request.
func requestOf(d dice, number uint64, callers []caller) *request {
	q := &request{number: number, method: http.MethodGet, header: http.Header{}, caller: pickCaller(d, callers), http1: d.percent(15)}
	if d.percent(50) {
		q.usual(d, callers)
		return q
	}
	switch n := d.IntN(100); {
	case n < 3:
		q.method = http.MethodHead
	case n < 12:
		q.method = pick(d, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)
	case n < 13:
		q.method = pick(d, http.MethodOptions, "FROB", "WATCH", "get")
	}
	q.caller.credentials(d, q.header)
	if d.percent(12) {
		impersonation(d, q.header)
	}
	r := pick(d, resources...)
	path := pathOf(d, r)
	query := queryOf(d, r)
	if q.method != http.MethodGet && q.method != http.MethodHead {
		query = append([]string{"dryRun=All"}, query...) // no request may change an object
		q.write(d, r)
	}
	q.target = path
	if len(query) > 0 {
		q.target += "?" + strings.Join(query, "&")
	}
	q.negotiate(d)
	if q.header.Get("Upgrade") != "" || q.header.Get("Connection") != "" {
		q.http1 = true // HTTP/2 has neither of these headers
	}
	return q
}

// usual makes q a common request of a good caller, which the proxy can often answer from its cache.
func (q *request) usual(d dice, callers []caller) {
	for !q.caller.good {
		q.caller = pick(d, callers...)
	}
	if d.percent(20) {
		q.caller = pick(d, slices.DeleteFunc(slices.Clone(callers), func(c caller) bool { return !c.admin })...)
	}
	if q.caller.token != "" {
		q.header.Set("Authorization", "Bearer "+q.caller.token)
	}
	if q.caller.front {
		q.header.Set("X-Remote-User", pick(d, named()...))
		for _, g := range some(d, 2, groups...) {
			q.header.Add("X-Remote-Group", g)
		}
	}
	r := pick(d, resources...)
	path := r.prefix()
	ns := pick(d, namespaces...)
	if r.namespaced && d.percent(80) {
		path += "/namespaces/" + ns
	}
	path += "/" + r.name
	accept := some(d, 1, "application/json", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json", "*/*")
	query := []string{pick(d, "resourceVersion=0", "resourceVersion=0", "resourceVersion=%7Bnow%7D", "resourceVersion=", "resourceVersion=%7Bthen%7D")}
	switch n := d.IntN(10); {
	case n < 3 && strings.Contains(path, "/namespaces/") == r.namespaced:
		path += "/" + url.PathEscape(pick(d, r.names...))
		accept = append(accept, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	case n < 5:
		query = append(query, "watch=true", "timeoutSeconds=1", pick(d, "allowWatchBookmarks=true", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))
		accept = append(accept, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	default:
		query = append(query, pick(d, "limit=1", "limit=2", "limit=500", "labelSelector=color%3Dred", "labelSelector=color", "fieldSelector=metadata.name%3D"+url.QueryEscape(pick(d, r.names...)),
			"fieldSelector=metadata.namespace%3D"+ns, "resourceVersionMatch=NotOlderThan"))
		accept = append(accept, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
	}
	q.header.Set("Accept", pick(d, accept...))
	if d.percent(50) {
		q.header.Set("Accept-Encoding", "gzip")
	}
	q.target = path + "?" + strings.Join(query, "&")
}

// pathOf returns a random path, which is valid in most cases.
func pathOf(d dice, r *resource) string {
	if d.percent(4) {
		return pick(d, "/", "/api", "/api/", "/apis", "/api/v1", "/apis/"+fuzzGroup, "/apis/"+fuzzGroup+"/v1", "/version", "/version/", "/metrics", "/metrics/slis",
			"/healthz/ping", "/livez/ping", "/readyz/ping", "/openapi/v3", "/logs", "/debug/pprof/cmdline", "/nothing", "/api/v1/nothing", "/apis/nothing/v1/nothing",
			"/.well-known/openid-configuration", "/openid/v1/jwks", "//", "/..", "/api/v1/..", "*", "/flagz", "/statusz", "/api/v2/pods")
	}
	ns, name := pick(d, append(namespaces, "missing", "mine")...), pick(d, r.names...)
	parts := strings.Split(r.prefix()[1:], "/")
	if d.percent(3) {
		parts = pick(d, []string{"api", "v1"}, []string{"apis", "v1"}, []string{"apis", r.group, "v9"}, []string{"apis", "apps", "v1"}, []string{"api"}, []string{"Api", "v1"})
	}
	if d.percent(3) {
		parts = append(parts, pick(d, "watch", "watch", "proxy", "Watch"))
	}
	if r.namespaced != d.percent(6) && d.percent(80) {
		parts = append(parts, "namespaces", ns)
	}
	if d.percent(4) {
		r = pick(d, resources...)
	}
	parts = append(parts, r.name)
	if d.percent(45) {
		parts = append(parts, escape(d, name))
		if d.percent(12) && len(r.subresources) > 0 {
			parts = append(parts, pick(d, r.subresources...))
		}
		if d.percent(3) {
			parts = append(parts, pick(d, "status", "scale", "nonsense", "proxy", "", name))
		}
	}
	path := "/" + strings.Join(parts, "/")
	for d.percent(12) {
		path = misspelt(d, path)
	}
	return path
}

// escape returns a name as a path segment. In some cases it escapes every byte.
func escape(d dice, name string) string {
	if d.percent(95) {
		return url.PathEscape(name)
	}
	var out strings.Builder
	for _, b := range []byte(name) {
		fmt.Fprintf(&out, "%%%02x", b)
	}
	return out.String()
}

// misspelt returns a path with one random change.
func misspelt(d dice, path string) string {
	parts := strings.Split(path, "/")
	i := 1 + d.IntN(max(1, len(parts)-1))
	if i >= len(parts) {
		return path + "/"
	}
	switch d.IntN(13) {
	case 0:
		return path + "/"
	case 1:
		parts[i] = "/" + parts[i]
	case 2:
		parts = slices.Insert(parts, i, pick(d, ".", "..", "%2e", "%2e%2e", "%2E%2e", "...", ""))
	case 3:
		if p := parts[i]; p != "" {
			at := d.IntN(len(p))
			parts[i] = p[:at] + fmt.Sprintf("%%%02x", p[at]) + p[at+1:]
		}
	case 4:
		parts[i] = strings.ToUpper(parts[i])
	case 5:
		parts[i] += pick(d, ";x", "%00", "%20", "%3F", "%3Fresource=1", "%2F", "%2fmine", "%25", ":", "%0a", "é", "%c3%a9", "%ff", "+", "~", "=", "&", ",")
	case 6:
		parts = slices.Insert(parts, i, pick(d, "watch", "namespaces", "mine", "yours", "namespaces/yours", "proxy", "api"))
	case 7:
		parts = slices.Delete(parts, i, i+1)
	case 8:
		parts[i] = pick(d, "namespaces", "pods", "secrets", "nodes", "widgets", "gadgets", "clusterroles", "mine", "yours", "*", "-", "status", "finalize", "watch")
	case 9:
		return strings.Replace(path, "/namespaces/", pick(d, "/namespaces//", "/namespaces/yours/../", "/Namespaces/", "/namespaces/yours%2f..%2f", "/namespace/"), 1)
	case 10:
		return path + "/" + pick(d, "..", "../../secrets", "%2e%2e/%2e%2e/yours/secrets", "status", "namespaces", strings.Repeat("a", 300))
	case 11:
		if i+1 < len(parts) {
			parts[i], parts[i+1] = parts[i+1], parts[i]
		}
	case 12:
		parts[i] = strings.TrimSuffix(parts[i], "s")
	}
	if out := strings.Join(parts, "/"); strings.HasPrefix(out, "/") {
		return out
	}
	return "/" + path
}

// write adds a random body to a write. A DELETE gets no body, because a server ignores the query's
// dryRun if a DELETE has a body.
func (q *request) write(d dice, r *resource) {
	if q.method == http.MethodDelete {
		return
	}
	q.header.Set("Content-Type", pick(d, "application/json", "application/json", "application/merge-patch+json", "application/apply-patch+yaml", "text/plain", ""))
	version := strings.TrimPrefix(r.group+"/"+r.version, "/")
	q.body = pick(d, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, version, r.kind, pick(d, r.names...)), `{}`, `{"metadata":{"labels":{"a":"b"}}}`, `junk`, ``)
}

// negotiate sets random headers that select the form of the answer.
func (q *request) negotiate(d dice) {
	const json, protobuf = "application/json", "application/vnd.kubernetes.protobuf"
	const one, list, table = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ";as=Table;g=meta.k8s.io;v=v1"
	if d.percent(75) {
		q.header.Set("Accept", pick(d, json, json, protobuf, protobuf, protobuf+","+json, "*/*", json+one, json+list, protobuf+one, protobuf+list,
			json+table, json+table+","+json, protobuf+table, json+list+","+json, protobuf+list+","+json+list+","+json))
	}
	if d.percent(12) {
		q.header.Set("Accept", pick(d, "application/yaml", "application/cbor", "text/html", "application/*", "*", "", "application/json;q=0.1, application/yaml",
			json+`;as="Table";g=meta.k8s.io;v=v1`, json+`;as="PartialObjectMetadataList";g=meta.k8s.io;v=v1`, json+";as=Nonsense;g=meta.k8s.io;v=v1", json+";as=Table;g=meta.k8s.io;v=v1beta1",
			json+";as=PartialObjectMetadataList;v=v1", json+";stream=watch", protobuf+";stream=watch", "APPLICATION/JSON", json+"; as=Table; g=meta.k8s.io; v=v1", json+";charset=utf-8",
			"text/html, */*", "*/*, "+json, strings.Repeat("a/b,", 20)+json, json+list+";as=Table", "application/vnd.kubernetes.protobuf;g=x", json+";pretty=1", json+";v=v1;g=meta.k8s.io;as=PartialObjectMetadata"))
		if d.percent(20) {
			q.header.Add("Accept", json)
		}
	}
	if d.percent(30) {
		q.header.Set("Accept-Encoding", pick(d, "gzip", "gzip", "deflate", "identity", "gzip;q=0", "*", "deflate, gzip", "br", "GZIP"))
	}
	if d.percent(3) {
		q.header.Set("Connection", pick(d, "Upgrade", "close", "keep-alive, Upgrade", "X-Remote-User", "Authorization", "Impersonate-User"))
		if d.percent(60) {
			q.header.Set("Upgrade", pick(d, "SPDY/3.1", "websocket", "h2c", "nonsense"))
		}
	}
	if d.percent(5) {
		name := pick(d, "X-Forwarded-For", "X-Real-Ip", "If-None-Match", "Range", "Origin", "User-Agent", "X-Http-Method-Override", "Forwarded", "Te", "Content-Type")
		q.header.Set(name, pick(d, "127.0.0.1", "bytes=0-1", "*", "DELETE", "https://elsewhere", "trailers"))
	}
}

// queryOf returns random query parameters. A watch always has a timeout.
func queryOf(d dice, r *resource) []string {
	var q []string
	add := func(name, value string) { q = append(q, name+"="+url.QueryEscape(value)) }
	if d.percent(75) {
		add("resourceVersion", versionOf(d))
	}
	watch := d.percent(18)
	if watch {
		add("watch", pick(d, "true", "true", "1", "true", "", "yes", "false"))
		if d.percent(40) {
			add("sendInitialEvents", pick(d, "true", "true", "false", "junk", "1"))
			if d.percent(80) {
				add("resourceVersionMatch", pick(d, "NotOlderThan", "NotOlderThan", "Exact"))
			}
		}
		if d.percent(60) {
			add("allowWatchBookmarks", pick(d, "true", "false", "1"))
		}
	}
	q = append(q, "timeoutSeconds=1")
	if !watch && d.percent(40) {
		q = q[:len(q)-1]
	}
	if !watch && d.percent(25) {
		add("limit", pick(d, "1", "2", "3", "5", "500", "0", "-1", "junk", "9223372036854775808"))
	}
	if !watch && d.percent(12) {
		add("resourceVersionMatch", pick(d, "NotOlderThan", "Exact", "Nonsense", ""))
	}
	if d.percent(25) {
		add("labelSelector", pick(d, "color=red", "color!=red", "color in (red,blue)", "color", "!color", "tier=0,color=green", "nothing=here", "color notin (red)",
			"-bad-", "a in (", "color=red,color=blue", "tier>0", "", strings.Repeat("color!=x,", 200)+"color"))
	}
	if d.percent(25) {
		fields := append([]string{"metadata.name=" + pick(d, r.names...), "metadata.namespace=mine", "metadata.namespace=yours", "metadata.namespace!=mine",
			"metadata.name=" + pick(d, r.names...) + ",metadata.namespace=yours", "metadata.name!=plain", "metadata.name=a/b", "metadata.name=..", "metadata.name=",
			"metadata.name=plain,metadata.name=key", "metadata.uid=1", "=", ",", "metadata.name=a\\,b", `metadata.name=web-0\=`, "metadata.name==web-0"}, r.fields...)
		add("fieldSelector", pick(d, fields...))
	}
	if d.percent(6) {
		const low, high = "'0x0000000000000000','0x7000000000000000'", "'0x7000000000000000','0x10000000000000000'"
		uid, namespace := "shardRange(object.metadata.uid,", "shardRange(object.metadata.namespace,"
		add("shardSelector", pick(d, uid+low+")", uid+high+")", uid+low+")||"+uid+high+")", "("+uid+high+"))", namespace+low+")", namespace+high+")",
			"o."+uid+low+")", uid+low+")||"+namespace+high+")", "shardRange(object.metadata.name,"+low+")", "", " ", uid+"'0x0','0x8')", uid+low))
	}
	if d.percent(5) {
		add(pick(d, parameters...), pick(d, "", "x", "0", "1", "true", "{now}"))
	}
	if d.percent(3) {
		add("continue", pick(d, "junk", "{then}", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJiIn0", "eyJydiI6MX0", ""))
	}
	if d.percent(7) {
		q = append(q, pick(d, "pretty=true", "pretty", "unheardOf=1", "shardSelector=x", "fieldManager=x", "force=true", "timeout=5s", "timeout=junk", "timeout=1ns", "export=true",
			"includeObject=None", "includeObject=Object", "includeObject=junk", "%zz", "a;b", "watch", "Watch=true", "ResourceVersion=0", "dryRun=junk", "follow=true",
			"resourceVersion=0;watch=1", "metadata.name=mine", "namespace=yours", "name=key", "%77atch=true", "ignoreStoreReadErrorWithClusterBreakingPotential=true"))
	}
	if d.percent(4) && len(q) > 0 { // repeat a parameter, with the same or another value
		q = append(q, pick(d, append(q, "resourceVersion=0", "watch=false", "limit=1", "fieldSelector=", "labelSelector=color%3Dblue", "resourceVersion=")...))
	}
	d.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
	return q
}

// parameters are all parameters of a LIST or WATCH, except the parameters that decide how long the
// request lasts.
var parameters = func() (names []string) {
	for field := range reflect.TypeFor[metav1.ListOptions]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "watch" && name != "timeoutSeconds" {
			names = append(names, name)
		}
	}
	return names
}()

// versionOf returns a random resourceVersion. Only few are in the future, because servers wait for
// such a version.
func versionOf(d dice) string {
	switch n := d.IntN(100); {
	case n < 55:
		return "0"
	case n < 65:
		return "{then}"
	case n < 80:
		return "{now}"
	case n < 84:
		return "1"
	case n < 85:
		return "{ahead}"
	case n < 92:
		return ""
	}
	return pick(d, "junk", "-1", "00", "007", "1.5", "18446744073709551616", " 0", "0x10", "+0", "{now}junk")
}

// fillIn replaces the placeholders of a target by the resourceVersions of this run.
func (w *world) fillIn(target string) string {
	return strings.NewReplacer("%7Bthen%7D", fmt.Sprint(w.then), "%7Bnow%7D", fmt.Sprint(w.now), "%7Bahead%7D", fmt.Sprint(w.now+1_000_000)).Replace(target)
}
