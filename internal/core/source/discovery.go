package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/wire"
)

// discoveryTimeout limits a request if the rest.Config has no Timeout. client-go's discovery client
// has the same limit.
const discoveryTimeout = 32 * time.Second

// Discovery requests the resources of an API server. Programs use it instead of client-go's
// discovery client, which links the types of every built-in API and of OpenAPI. Those types are a
// third of the binary of a program that lists and watches. All methods of a Discovery are safe for
// concurrent use.
type Discovery struct {
	rest    rest.Interface
	retries int // of requests of All
}

// NewDiscovery returns a client for cfg's server. It copies cfg and sends no request. The client
// shares connections with the Sources and clients of equal configs.
func NewDiscovery(cfg *rest.Config) (*Discovery, error) {
	cfg = CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "", nil
	cfg.QPS = -1 // no limit: each path is requested once, and at most maxAsked at the same time
	cfg.Timeout = cmp.Or(cfg.Timeout, discoveryTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	cfg.NegotiatedSerializer = statusCodecs
	httpClient, err := HTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	// A server that keeps asking to retry later is reported before the timeout.
	return &Discovery{client, min(discoveryRetries, int(cfg.Timeout/(2*time.Second)))}, nil
}

// statusCodecs decodes the Status in the body of an error response.
var statusCodecs = func() runtime.NegotiatedSerializer {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(s).WithoutConversion()
}()

// REST returns the client's REST client.
func (c *Discovery) REST() rest.Interface { return c.rest }

// discoveryRetries is how often a request of All is repeated after a broken connection, or after
// the wait that the server's Retry-After demands. client-go's discovery client has the same limit.
// If the config's timeout is below 20 s, the limit is lower: one retry for two seconds.
const discoveryRetries = 10

// GroupVersion requests the resources of one version of a group. It sends one request and never
// repeats it. If the server refused the request, the error contains the delay of the Retry-After
// header, after which the caller may try again. If the response cannot be decoded, the error wraps
// a *wire.SyntaxError.
func (c *Discovery) GroupVersion(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	return c.request(ctx, gv, 0)
}

func (c *Discovery) request(ctx context.Context, gv schema.GroupVersion, retries int) (*metav1.APIResourceList, error) {
	path := "/apis/" + gv.Group + "/" + gv.Version
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	list := &metav1.APIResourceList{}
	_, err := c.get(ctx, path, runtime.ContentTypeJSON, retries, func(string) any { return list })
	return list, err
}

// get requests a path. client-go's REST client repeats the request up to retries times. get calls
// into with the response's content type, and decodes the response into the returned value.
func (c *Discovery) get(ctx context.Context, path, accept string, retries int, into func(contentType string) any) (any, error) {
	var contentType string
	result := c.rest.Get().AbsPath(path).SetHeader("Accept", accept).MaxRetries(retries).Do(ctx).ContentType(&contentType)
	body, plain := result.Raw()
	if err := result.Error(); err != nil {
		return nil, withRetryAfter(err, plain)
	}
	answer := into(contentType)
	if err := json.Unmarshal(body, answer); err != nil {
		if page := humanize.HTMLPage(string(body)); page != "" {
			err = &wire.SyntaxError{What: "it is " + page, Err: wire.ErrMalformed}
			return nil, fmt.Errorf("GET %s: %w", path, err)
		}
		return nil, fmt.Errorf("GET %s: %w", path, malformed(err))
	}
	return answer, nil
}

// withRetryAfter returns err with the delay of the response's Retry-After header, unless the Status
// in err has a longer delay. Both errors are from client-go, for the same response: err has the
// delay of the Status in the body, and plain has the delay of the header.
func withRetryAfter(err, plain error) error {
	status, sent := errors.AsType[*apierrors.StatusError](err)
	rest, refused := errors.AsType[*apierrors.StatusError](plain)
	if !sent || !refused || rest.ErrStatus.Details == nil {
		return err
	}
	status.ErrStatus.Details = cmp.Or(status.ErrStatus.Details, &metav1.StatusDetails{})
	seconds := &status.ErrStatus.Details.RetryAfterSeconds
	*seconds = max(*seconds, rest.ErrStatus.Details.RetryAfterSeconds)
	return err
}

// malformed returns the error for a response that encoding/json rejected with err.
func malformed(err error) error {
	e := &wire.SyntaxError{What: err.Error(), Err: wire.ErrMalformed}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Offset = syntax.Offset
	}
	return e
}
