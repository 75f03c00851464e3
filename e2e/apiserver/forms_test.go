package apiserver

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	metadataOf   = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	tableOf      = ";as=Table;g=meta.k8s.io;v=v1"
)

// accepts are Accept headers. They combine wildcards, media types, and the forms Table and
// PartialObjectMetadata.
var accepts = []string{
	"", "*/*", "application/*", "application/*, text/html", "application/*, " + jsonType, "application/*, " + protobufType, protobufType + ", application/*",
	"*/*, " + protobufType, "*/*, " + jsonType, protobufType + ", */*", "*/*, application/*", "text/html, */*", "text/html",
	jsonType + ", " + protobufType, protobufType + ", " + jsonType, jsonType + ";q=0.5, " + protobufType, "*/*;q=0.5, " + protobufType + ";q=0.5",
	jsonType + metadataOf, jsonType + metadataList, protobufType + metadataOf, protobufType + metadataList, "*/*" + metadataList, "application/*" + metadataOf,
	jsonType + metadataOf + ", " + jsonType, jsonType + metadataList + ", " + jsonType,
	jsonType + tableOf, "*/*" + tableOf, protobufType + tableOf, jsonType + tableOf + ", " + jsonType,
}

// TestForms checks that the embedded server and kube-apiserver answer with the same media type and
// kind of object, or reject the request with the same status code.
func TestForms(t *testing.T) {
	ctx, things, ours, theirs := startBoth(t)
	for gvr, kind := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "configmaps"}: "ConfigMap",
		things.WithResource("widgets"):          "Widget",
	} {
		objects := resourcePath(gvr.GroupVersion(), "namespaces/default/"+gvr.Resource)
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
		o.SetName("forms")
		for _, s := range []*server{ours, theirs} {
			client := s.dynamic.Resource(gvr).Namespace(metav1.NamespaceDefault)
			if _, err := client.Create(ctx, o.DeepCopy(), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		for _, path := range []string{"", "/forms", "?includeObject=None", "?includeObject=Everything", "/forms?includeObject=Everything"} {
			for _, accept := range accepts {
				a, b := ours.get(t, ctx, objects+path, accept), theirs.get(t, ctx, objects+path, accept)
				if b.code == http.StatusInternalServerError && strings.Contains(b.text, "content is not a list") {
					// kube-apiserver intentionally treats any custom object as a list, and then answers 500.
					b.code = http.StatusNotAcceptable
				}
				if !a.same(b) {
					t.Errorf("%s%s as %q: embedded %d %s %s, kube-apiserver %d %s %s: %.200s", gvr.Resource, path, accept, a.code, a.mediaType, a.kind, b.code, b.mediaType, b.kind, b.text)
				}
				if b.code != http.StatusOK {
					refused++
				}
			}
		}
		if refused < 20 {
			t.Errorf("%s: kube-apiserver refuses only %d", gvr.Resource, refused)
		}
		watch := objects + "?watch=1&timeoutSeconds=1&includeObject=Everything"
		if a, b := ours.get(t, ctx, watch, jsonType+tableOf), theirs.get(t, ctx, watch, jsonType+tableOf); b.code != http.StatusBadRequest || !a.same(b) {
			t.Errorf("%s: a watch: embedded %d, kube-apiserver %d: %.200s", gvr.Resource, a.code, b.code, b.text)
		}
	}
}
