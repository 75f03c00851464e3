package servers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/cmd/weir/internal/child"
)

// Role is that of a child process which stands in for kube-apiserver: an embedded server that a proxy can ask about its callers.
const Role = "upstream"

// upstreamSpec is what it holds.
type upstreamSpec struct {
	Pods  int
	Churn float64 // pods that change in a second
}

// upstreamReady is its first line.
type upstreamReady struct{ URL string }

// token is what a caller has to have. It guards nothing.
const token = "bench"

// StartUpstream starts it, with so many pods, of which so many change in a second. It ends with ctx or with Stop.
func StartUpstream(ctx context.Context, pods int, churn float64) (*child.Process, *rest.Config, error) {
	p, err := child.Start(ctx, Role, nil, nil, upstreamSpec{pods, churn})
	if err != nil {
		return nil, nil, err
	}
	var r upstreamReady
	if err := p.Receive(&r); err != nil {
		return nil, nil, err
	}
	return p, &rest.Config{Host: r.URL, BearerToken: token, QPS: -1}, nil
}

// Serve is what the child process does.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s upstreamSpec
	return child.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
		return serveUpstream(ctx, s, send)
	})
}

func serveUpstream(ctx context.Context, s upstreamSpec, send func(any) error) error {
	objects, err := apiserver.New(apiserver.Options{Pods: s.Pods, Churn: s.Churn, Seed: 1})
	if err != nil {
		return err
	}
	defer objects.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: reviews{objects}, ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := send(upstreamReady{URL: "http://" + l.Addr().String()}); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

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
		asked, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind := asked.GetObjectKind().GroupVersionKind()
	switch review := asked.(type) {
	case *authenticationv1.TokenReview:
		review.Status.Authenticated = review.Spec.Token == token
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
