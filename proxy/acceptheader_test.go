package proxy

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/apiserver"
)

// allowed tells kube-apiserver's negotiation which transformations are allowed: the ones that
// kube-apiserver supports for lists.
type allowed struct{}

func (allowed) AllowsMediaTypeTransform(_, _ string, to *schema.GroupVersionKind) bool {
	if to == nil {
		return true
	}
	return to.Group == "meta.k8s.io" && (to.Version == "v1" || to.Version == "v1beta1") && (to.Kind == "Table" || to.Kind == "PartialObjectMetadataList")
}
func (allowed) AllowsServerVersion(string) bool  { return false }
func (allowed) AllowsStreamSchema(s string) bool { return s == "watch" }

// TestAccept checks that the proxy answers only with the media type and kind that kube-apiserver's
// own negotiation selects.
func TestAccept(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 1}, Options{Resources: []string{"pods"}})
	const (
		partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
		list    = "/api/v1/pods?resourceVersion=0"
	)
	here := 0
	for _, accept := range []string{
		"", "*/*", "*", "application/*", "application/json", "application/json, */*", "*/*, application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json", "application/json;q=0.1, application/vnd.kubernetes.protobuf;q=0.2",
		"application/json;q=0.9,application/vnd.kubernetes.protobuf", "*/*;q=0.9,application/vnd.kubernetes.protobuf;q=0.1",
		partial, partial + ",application/json", `application/json;as="PartialObjectMetadataList";v=v1;g=meta.k8s.io,application/json`,
		strings.ToUpper("application/vnd.kubernetes.protobuf") + ",application/json", "Application/json", "application/json; charset=utf-8",
		partial + ";as=x,application/json", strings.Replace(partial, "as", "As", 1) + ",application/json", `application/json;x="a,application/vnd.kubernetes.protobuf,b"`,
		partial + ";pretty=1", "application/json;sv=v1,application/vnd.kubernetes.protobuf", "application/json;stream=watch", "application/json;stream=x,application/vnd.kubernetes.protobuf",
		"application/json;as=PartialObjectMetadataList,application/vnd.kubernetes.protobuf", "application/json;g=x,application/vnd.kubernetes.protobuf",
		"application/yaml, application/json", "application/yaml;stream=watch, application/json", "application/yaml;as=Table;v=v1;g=meta.k8s.io,application/json",
		"text/html,application/xhtml+xml,*/*", " application/json", "\tapplication/json", "application/json;", "application/json;;as=Table", ",application/json",
		"application/json, */*;q=0.8", "application/json, application/vnd.kubernetes.protobuf;q=0.9", "*/*;q=0.001", "application/json, */*; q=0.80",
		"application/json, */*;q=0", "application/json, */*;q=0.0", "application/json, */*;q=2", "application/json, */*;q=-1", "text/html, */*;q=0.x",
		"application/json;q=0.5, */*;q=0.8", "text/html, */*;q=0.8;q=0.9", "text/html, */*;q=0.1;charset=utf-8", "text/html, */*;q=0.8000000000000000000001",
		"application/json; as=Table", "application/json;as =PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
	} {
		want, ok := negotiation.NegotiateMediaTypeOptions(accept, scheme.Codecs.SupportedMediaTypes(), allowed{})
		u.forwarded("")
		resp := tp.open(tp.client, http.MethodGet, list, "Authorization", "Bearer token-jane", "Accept", accept)
		if len(u.forwarded("/api/v1/pods")) > 0 {
			continue
		}
		here++
		wantKind := "PodList"
		if want.Convert != nil {
			wantKind = want.Convert.Kind
		}
		raw := make([]byte, 200)
		n, _ := resp.Body.Read(raw)
		if !ok || resp.Header.Get("Content-Type") != want.Accepted.MediaType || !strings.Contains(string(raw[:n]), wantKind) {
			t.Errorf("%q: %s, want %s %s: %.80q", accept, resp.Header.Get("Content-Type"), want.Accepted.MediaType, wantKind, raw[:n])
		}
	}
	if here < 12 {
		t.Errorf("%d of these are answered here", here)
	}
}
