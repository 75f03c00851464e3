package proxy

import (
	"net/http"
	"strings"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	metadataOf   = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	tableOf      = ";as=Table;g=meta.k8s.io;v=v1"
)

// These are reasons why the proxy forwards a request.
const (
	invalid   = "what is not well-formed goes upstream, which says best what is wrong"
	foreign   = "what no watch cache answers"
	unheld    = "a form that the proxy does not make"
	single    = "one object that must be current costs no less to prove"
	ordered   = "an Accept header that kube-apiserver orders in its own way"
	costly    = "selectors that take long to decide"
	forgotten = "the log does not reach back to it"
	behind    = "the proxy has not come so far, and the resource may be quiet"
)

// These are intended differences between the answers.
var (
	words = &difference{"the message is in other words", func(a *answer) {
		for _, body := range a.Bodies {
			delete(body.(map[string]any), "message")
		}
	}}
	lastPage = &difference{"kube-apiserver ends with an empty page if what matched last was not the last object", func(a *answer) {
		full := len(a.Bodies) - 1
		if items, _ := a.Bodies[full].(map[string]any)["items"].([]any); len(items) == 0 {
			a.Bodies = a.Bodies[:full]
			delete(a.Bodies[full-1].(map[string]any)["metadata"].(map[string]any), "continue")
		}
	}}
	vary = &difference{"Vary also where the client could have had it compressed", func(a *answer) { delete(a.Header, "Vary") }}
)

// lists are LISTs that TestSemantics sends to the proxy and to kube-apiserver. rowsFor adds the
// combinations of resourceVersion, resourceVersionMatch and limit.
var lists = []row{
	{query: "resourceVersion=&resourceVersionMatch="},
	{query: "resourceVersion=0&limit=0"},
	{query: "resourceVersion=0&limit=1"},
	{query: "resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1&pretty=true&foo=bar", passed: foreign},
	{query: "resourceVersion=0&sendInitialEvents=true"},
	{query: "resourceVersion=0&watch=false"},
	{query: "resourceVersion=0&limit=1&limit=2", passed: foreign},
	{query: "resourceVersion={now}&resourceVersionMatch=Exact&limit=1"},
	{query: "resourceVersion={then}&resourceVersionMatch=Exact&limit=1"},
	{query: "resourceVersion={then}&resourceVersionMatch=Exact&limit=100"},
	{query: "continue={page}"},
	{query: "continue={page}&limit=1"},
	{query: "continue={page}&limit=1&resourceVersion=0"},
	{query: "continue={page}&resourceVersion={now}"},
	{query: "continue={page}&resourceVersion={now}&resourceVersionMatch=Exact"},
	{query: "continue={page}&resourceVersionMatch=NotOlderThan"},
	{query: "continue=garbage", passed: invalid},
	{query: "continue=%00", passed: invalid},
	{query: "continue={token of nothing}", passed: invalid},
	{query: "continue={own token of nothing}", passed: invalid},
	{query: "continue={token without start}", passed: invalid},
	{query: "continue={token of another format}", passed: invalid},
	{query: "continue={token upwards}", passed: foreign},
	{query: "continue={token of ahead}"},

	{query: "resourceVersion=0&labelSelector=color%3Dred"},
	{query: "resourceVersion=0&labelSelector=color!%3Dred"},
	{query: "resourceVersion=0&labelSelector=color%20in%20(red,green)"},
	{query: "resourceVersion=0&labelSelector=color%20notin%20(red)"},
	{query: "resourceVersion=0&labelSelector=special"},
	{query: "resourceVersion=0&labelSelector=!special"},
	{query: "resourceVersion=0&labelSelector=special%3D"},
	{query: "resourceVersion=0&labelSelector=n%20gt%202", passed: invalid},
	{query: "resourceVersion=0&labelSelector=n%3E2,n%3C5"},
	{query: "resourceVersion=0&labelSelector=color%3Dred,color%3Dblue"},
	{query: "resourceVersion={then}&resourceVersionMatch=Exact&labelSelector=color%3Dred"},
	{query: "resourceVersion={now}&resourceVersionMatch=Exact&labelSelector=color%3Dblue&limit=1", differs: lastPage},
	{query: "resourceVersion=0&labelSelector=" + strings.Repeat("a%3Db,", 60) + "a"},
	{query: "resourceVersion=0&labelSelector=" + strings.Repeat("a%3Db,", 3000) + "a", passed: costly},
	{query: "resourceVersion=0&fieldSelector=metadata.name%3Db"},
	{query: "resourceVersion=0&fieldSelector=metadata.name!%3Db"},
	{query: "resourceVersion=0&fieldSelector=metadata.name%3D"},
	{query: "resourceVersion=0&fieldSelector=metadata.name%3Dmissing"},
	{query: "resourceVersion=0&fieldSelector=metadata.namespace%3Dsemantics"},
	{query: "resourceVersion=0&fieldSelector=metadata.namespace%3Dother"},
	{query: "resourceVersion=0&fieldSelector=metadata.name%3Db,metadata.name%3Da"},
	{query: "resourceVersion=0&fieldSelector=metadata.uid%3D1", passed: invalid},
	{query: "resourceVersion=0&fieldSelector=spec.nonsense%3D1", passed: invalid},
	{only: "widgets", query: "resourceVersion=0&fieldSelector=spec.color%3Dred"},
	{only: "widgets", query: "resourceVersion=0&fieldSelector=spec.color!%3Dred&limit=1"},
	{only: "widgets", query: "resourceVersion=0&fieldSelector=spec.size%3D1", passed: invalid},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.nodeName%3D"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.nodeName!%3D"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.host%3Dnode-1"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.restartPolicy%3DNever,spec.nodeName%3Dnode-1"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.schedulerName%3Ddefault-scheduler"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.serviceAccountName%3D"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.hostNetwork%3Dfalse"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.hostNetwork%3Dtrue"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=status.phase%3DPending"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=status.phase!%3DPending"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=status.podIP%3D"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=status.podIPs%3D10.0.0.1"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=status.nominatedNodeName%3D"},
	{only: "pods", query: "resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1&labelSelector=color%3Dblue"},

	{only: "pods", path: "/api/v1/pods", query: "resourceVersion={now}&resourceVersionMatch=Exact&limit=10&labelSelector={many}", differs: lastPage},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion={now}&resourceVersionMatch=Exact&limit=400", accept: protobufType + metadataList, differs: vary},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&fieldSelector=metadata.namespace%3Dsemantics"},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&fieldSelector=metadata.namespace!%3Dsemantics&labelSelector=color%3Dred"},
	{only: "pods", path: "/api/v1/namespaces/none/pods", query: "resourceVersion=0"},
	{only: "widgets", path: "/apis/semantics.weir.dev/v1/widgets", query: "resourceVersion=0"},
	{only: "widgets", path: "/apis/semantics.weir.dev/v2/widgets", query: "resourceVersion=0", passed: foreign},
	{query: "resourceVersion=0", method: http.MethodHead, passed: foreign},
	{query: "resourceVersion=0&limit=1", method: http.MethodHead, passed: foreign},
}

// watches are WATCHes that TestSemantics sends to the proxy and to kube-apiserver. rowsFor adds the
// combinations of resourceVersion, sendInitialEvents, resourceVersionMatch and allowWatchBookmarks.
var watches = []row{
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&labelSelector=color%3Dred"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&labelSelector=color%3Dblue"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&fieldSelector=metadata.name%3Db"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&fieldSelector=metadata.name%3Dc"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&labelSelector=color%3Dred"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Db"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.uid%3Db", passed: invalid},
	{query: "watch=1&timeoutSeconds=1&resourceVersion={then}&limit=1"},
	{query: "watch=yes&timeoutSeconds=1&resourceVersion={then}"},
	{query: "watch&timeoutSeconds=1&resourceVersion={then}"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&allowWatchBookmarks=0"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={now}&continue={page}"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={now}&continue={page}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", gzip: "gzip"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true", gzip: "gzip"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0", gzip: "gzip"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", gzip: "gzip"},
	{only: "pods", query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: protobufType},
	{only: "pods", query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: protobufType + ";stream=watch"},
	{only: "pods", query: "watch=true&timeoutSeconds=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept: protobufType},
	{only: "pods", query: "watch=true&timeoutSeconds=4&resourceVersion={ahead}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", accept: protobufType, passed: behind},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: jsonType + ";stream=watch"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: jsonType + metadataOf},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&labelSelector=color%3Dred", accept: protobufType + metadataOf},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept: protobufType + metadataOf},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: jsonType + tableOf, passed: unheld},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", accept: "text/html", passed: unheld},
	{path: "/api/v1/watch/namespaces/semantics/pods", only: "pods", query: "timeoutSeconds=1&resourceVersion={then}", passed: foreign},
}

var gets = []row{
	{path: "a", passed: single},
	{path: "a", query: "resourceVersion=0"},
	{path: "a", query: "resourceVersion={then}"},
	{path: "a", query: "resourceVersion={now}"},
	{path: "a", query: "resourceVersion={ahead}"},
	{path: "a", query: "resourceVersion=abc", passed: invalid},
	{path: "a", query: "resourceVersion=-1", passed: invalid},
	{path: "a", query: "resourceVersion=0&resourceVersionMatch=Bogus", passed: foreign},
	{path: "a", query: "resourceVersion=0&fieldSelector=spec.nonsense%3D1", passed: invalid},
	{path: "a", query: "resourceVersion=0&labelSelector=color%3Dnone", passed: foreign},
	{path: "a", query: "resourceVersion=0&sendInitialEvents=true&timeoutSeconds=abc", passed: foreign},
	{path: "a", query: "resourceVersion=0&watch=true", passed: foreign},
	{path: "a", query: "resourceVersion=0", accept: jsonType + metadataOf},
	{path: "a", query: "resourceVersion=0", accept: protobufType + metadataOf},
	{path: "a", query: "resourceVersion=0", accept: jsonType + metadataList, passed: unheld},
	{path: "a", query: "resourceVersion=0", accept: jsonType + tableOf, passed: unheld},
	{path: "a", query: "resourceVersion=0", accept: "application/yaml", passed: unheld},
	{path: "a", query: "resourceVersion=0", gzip: "gzip"},
	{path: "a", query: "resourceVersion=0", method: http.MethodHead, passed: foreign},
	{only: "pods", path: "a", query: "resourceVersion=0", accept: protobufType},
	{path: "a/status", query: "resourceVersion=0", passed: foreign},
	{path: "c", query: "resourceVersion=0"},
	{path: "c", query: "resourceVersion={then}"},
	{path: "c", passed: single},
	{path: "c", query: "resourceVersion=0", accept: protobufType + metadataOf},
	{path: "a", query: "resourceVersion={ahead}", accept: protobufType + metadataOf},
	{only: "pods", path: "/api/v1/namespaces/none/pods/a", query: "resourceVersion=0"},
	{only: "pods", path: "/api/v1/pods/a", query: "resourceVersion=0", passed: foreign},
}

// forms are LISTs with different media types and compressions.
var forms = []row{
	{query: "resourceVersion=0", accept: "*/*"},
	{query: "resourceVersion=0", accept: "application/*", passed: unheld},
	{query: "resourceVersion=0", accept: "text/html, */*;q=0.1"},
	{query: "resourceVersion=0", accept: "text/html, */*"},
	{query: "resourceVersion=0", accept: "text/html", passed: unheld},
	{query: "resourceVersion={now}&resourceVersionMatch=Exact", accept: "application/yaml", passed: unheld},
	{query: "resourceVersion=0", accept: jsonType + ";q=0.5, " + "application/yaml;q=0.1", passed: ordered},
	{query: "resourceVersion=0", accept: jsonType + ";pretty=1", passed: ordered},
	{query: "resourceVersion=0", accept: jsonType + metadataList},
	{query: "resourceVersion=0", accept: jsonType + strings.Replace(metadataList, "v=v1", "v=v1beta1", 1)},
	{query: "resourceVersion=0", accept: jsonType + strings.Replace(metadataList, "v=v1", "v=v7", 1), passed: unheld},
	{query: "resourceVersion=0", accept: jsonType + metadataOf, passed: unheld},
	{query: "resourceVersion=0", accept: protobufType + metadataList},
	{query: "resourceVersion={then}&resourceVersionMatch=Exact&limit=2", accept: protobufType + metadataList},
	{query: "resourceVersion=0", accept: protobufType + metadataList + "," + jsonType + metadataList + "," + jsonType},
	{query: "resourceVersion=0", accept: jsonType + tableOf, passed: unheld},
	{query: "resourceVersion=0", accept: jsonType + tableOf + "," + jsonType, passed: unheld},
	{query: "resourceVersion=0", accept: protobufType + tableOf, passed: unheld},
	{query: "resourceVersion=0", gzip: "gzip"},
	{query: "resourceVersion=0", accept: protobufType + "," + jsonType},
	{only: "widgets", query: "resourceVersion=0", accept: protobufType, passed: unheld},
	{only: "pods", query: "resourceVersion=0", accept: protobufType},
	{only: "pods", query: "resourceVersion={then}&resourceVersionMatch=Exact&limit=2", accept: protobufType},
	{only: "pods", query: "resourceVersion=0&resourceVersionMatch=Exact", accept: protobufType, passed: forgotten},
	{only: "pods", query: "resourceVersion={ahead}", accept: protobufType},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector={many}", accept: protobufType, gzip: "gzip"},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector={many}", gzip: "deflate, gzip"},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector={many}", gzip: "deflate", differs: vary},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector={many}", differs: vary},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector={many}", gzip: "gzip;q=0", differs: vary},
	{only: "pods", path: "/api/v1/pods", query: "resourceVersion=0&labelSelector=app", gzip: "gzip", accept: protobufType + metadataList},
}

// malformed are requests with invalid parameters.
var malformed = []row{
	{query: "resourceVersion=abc", passed: invalid},
	{query: "resourceVersion=-1", passed: invalid},
	{query: "resourceVersion=1.5", passed: invalid},
	{query: "resourceVersion=18446744073709551616", passed: invalid},
	{query: "resourceVersion=18446744073709551615"},
	{query: "resourceVersion=007"},
	{query: "resourceVersion=0&limit=abc"},
	{query: "resourceVersion=0&limit=-1"},
	{query: "resourceVersion=0&limit=9223372036854775808"},
	{query: "resourceVersion={now}&limit=-1"},
	{query: "resourceVersion=0&timeoutSeconds=abc"},
	{query: "resourceVersion=0&timeoutSeconds=-1"},
	{query: "resourceVersion=0&labelSelector=a%20in%20(", passed: invalid},
	{query: "resourceVersion=0&labelSelector=-bad-%3Dx", passed: invalid},
	{query: "resourceVersion=0&fieldSelector=%3D%3D,"},
	{query: "resourceVersion=0&%zz", passed: invalid},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=abc", passed: invalid},
	{query: "watch=true&timeoutSeconds=abc&resourceVersion=0"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&sendInitialEvents=abc&resourceVersionMatch=NotOlderThan"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&limit=abc"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&labelSelector=a%20in%20(", passed: invalid},
}
