package apiserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// subresource is a subresource whose objects have a kind of their own, such as scale with the kind
// Scale.
type subresource struct {
	bodyReader
	name  string
	verbs []string
	serve func(s *Server, w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error
}

func newSubresource(name string, gv schema.GroupVersion, example object, verbs ...string) *subresource {
	goType := reflect.TypeOf(example).Elem()
	return &subresource{bodyReader: newBodyReader(gv.WithKind(goType.Name()), goType), name: name, verbs: verbs}
}

var (
	scaleSubresource    = newSubresource("scale", autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{}, "get", "patch", "update")
	evictionSubresource = newSubresource("eviction", policyv1.SchemeGroupVersion, &policyv1.Eviction{}, "create")
	tokenSubresource    = newSubresource("token", authenticationv1.SchemeGroupVersion, &authenticationv1.TokenRequest{}, "create")
)

func init() { // in the declarations this would be a cycle: the methods use the variables
	scaleSubresource.serve = (*Server).serveScale
	evictionSubresource.serve = (*Server).evict
	tokenSubresource.serve = (*Server).issueToken
}

// subresources returns the subresources of a resource except status, in the order of discovery.
func (r *Resource) subresources() (out []*subresource) {
	switch r.GroupVersionResource {
	case podsResource:
		out = append(out, evictionSubresource)
	case serviceAccountsResource:
		out = append(out, tokenSubresource)
	}
	if r.Scale != nil {
		out = append(out, scaleSubresource)
	}
	return out
}

func (r *Resource) find(name string) *subresource {
	for _, sub := range r.subresources() {
		if sub.name == name {
			return sub
		}
	}
	return nil
}

// post decodes the body of a POST to a subresource of an object. It returns an error if the body
// states a name that differs from the name in the path.
func (sub *subresource) post(w http.ResponseWriter, r *http.Request, q request.Path) (object, error) {
	if r.Method != http.MethodPost {
		return nil, errMethod()
	}
	o, err := sub.fromRequest(w, r)
	if err != nil {
		return nil, err
	}
	if o.GetName() != "" {
		err = checkName(o, q)
	}
	return o, err
}

// evict answers an eviction by deleting the pod. It ignores PodDisruptionBudgets, because the
// server has no disruption controller.
func (s *Server) evict(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	o, err := evictionSubresource.post(w, r, q)
	if err != nil {
		return err
	}
	options := cmp.Or(o.(*policyv1.Eviction).DeleteOptions, &metav1.DeleteOptions{})
	if _, _, err := s.remove(res, q, options.Preconditions, dryRun(r) || len(options.DryRun) > 0); err != nil {
		return err
	}
	writeSuccess(w, r, http.StatusCreated, nil)
	return nil
}

// defaultTokenLife is the lifetime of a token whose request states none.
const defaultTokenLife = time.Hour

// issueToken answers a TokenRequest for a service account with an unsigned JWT. Anyone can forge
// such a token, so it protects nothing.
func (s *Server) issueToken(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	o, err := tokenSubresource.post(w, r, q)
	if err != nil {
		return err
	}
	if _, _, err := res.current(q); err != nil {
		return err
	}
	asked := o.(*authenticationv1.TokenRequest)
	issued, life := now(), defaultTokenLife
	if seconds := asked.Spec.ExpirationSeconds; seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	expires := metav1.NewTime(issued.Add(life))
	claims := map[string]any{
		"iss": "https://kubernetes.default.svc", "aud": asked.Spec.Audiences, "iat": issued.Unix(), "exp": expires.Unix(),
		"sub": "system:serviceaccount:" + q.Namespace + ":" + q.Name,
	}
	token, err := unsignedToken(claims)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	asked.Name, asked.Namespace = q.Name, q.Namespace
	asked.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: expires}
	watchcache.WriteValue(w, r, http.StatusCreated, tokenSubresource.typeMeta(), asked)
	return nil
}

// unsignedToken returns a JWT with the claims and the algorithm "none" (RFC 7519, section 6).
func unsignedToken(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(text) + ".", nil
}
