package apiserver

import (
	"net/http"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// review is a resource whose objects are questions about permissions. The server answers the
// creation of such an object with the decision, and does not store the object. The server requires
// no credentials: it treats each caller as the user admin, who may do everything.
type review struct {
	Resource
	bodyReader
}

// reviews are the reviews that kube-apiserver serves, in the order of discovery.
var reviews = []*review{
	newReview(authenticationv1.SchemeGroupVersion, "selfsubjectreviews", &authenticationv1.SelfSubjectReview{}),
	newReview(authenticationv1.SchemeGroupVersion, "tokenreviews", &authenticationv1.TokenReview{}),
	newReview(authorizationv1.SchemeGroupVersion, "localsubjectaccessreviews", &authorizationv1.LocalSubjectAccessReview{}),
	newReview(authorizationv1.SchemeGroupVersion, "selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{}),
	newReview(authorizationv1.SchemeGroupVersion, "selfsubjectrulesreviews", &authorizationv1.SelfSubjectRulesReview{}),
	newReview(authorizationv1.SchemeGroupVersion, "subjectaccessreviews", &authorizationv1.SubjectAccessReview{}),
}

func newReview(gv schema.GroupVersion, resource string, example object) *review {
	goType := reflect.TypeOf(example).Elem()
	_, namespaced := example.(*authorizationv1.LocalSubjectAccessReview)
	r := Resource{GroupVersionResource: gv.WithResource(resource), Kind: goType.Name(), Namespaced: namespaced}
	return &review{r.complete(), newBodyReader(gv.WithKind(goType.Name()), goType)}
}

// findReview returns the review of a path, or nil.
func findReview(q request.Path) *review {
	for _, r := range reviews {
		if r.GroupVersionResource == q.GVR() && q.Name == "" && (q.Namespace != "") == r.Namespaced {
			return r
		}
	}
	return nil
}

// serve answers a request to create a review.
func (v *review) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return errMethod()
	}
	o, err := v.fromRequest(w, r)
	if err != nil {
		return err
	}
	decide(o)
	watchcache.WriteValue(w, r, http.StatusCreated, v.typeMeta(), o)
	return nil
}

// The server treats each caller as the user admin. This user is not in the group system:masters, so
// a proxy in front of the server gives it no special rights.
var admin = authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:authenticated"}}

// decide sets the status of a review.
func decide(o object) {
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	switch o := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		o.Status.UserInfo = admin
	case *authenticationv1.TokenReview:
		o.Status = authenticationv1.TokenReviewStatus{Authenticated: o.Spec.Token != "", User: admin, Audiences: o.Spec.Audiences}
	case *authorizationv1.LocalSubjectAccessReview:
		o.Status = allowed
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status = allowed
	case *authorizationv1.SelfSubjectRulesReview:
		all := []string{"*"}
		o.Status = authorizationv1.SubjectRulesReviewStatus{
			ResourceRules:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
			NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
		}
	case *authorizationv1.SubjectAccessReview:
		o.Status = allowed
	}
}
