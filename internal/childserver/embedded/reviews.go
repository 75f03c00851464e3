package embedded

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/childserver"
)

// reviewCodecs decode what is asked.
var reviewCodecs = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	utilruntime.Must(errors.Join(authenticationv1.AddToScheme(s), authorizationv1.AddToScheme(s)))
	return serializer.NewCodecFactory(s)
}()

// reviews answers that whoever has the token is somebody, who may do everything.
type reviews struct{ objects http.Handler }

func (h reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "reviews") {
		h.objects.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var asked runtime.Object
	if err == nil {
		asked, _, err = reviewCodecs.UniversalDeserializer().Decode(body, nil, nil)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind := asked.GetObjectKind().GroupVersionKind()
	switch review := asked.(type) {
	case *authenticationv1.TokenReview:
		review.Status.Authenticated = review.Spec.Token == childserver.Token
		review.Status.User.Username = "bench"
	case *authorizationv1.SubjectAccessReview:
		review.Status.Allowed = true
	default:
		http.NotFound(w, r)
		return
	}
	asked.GetObjectKind().SetGroupVersionKind(kind)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(asked) // to a proxy that may have gone
}
