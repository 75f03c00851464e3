// Package discovery asks an API server which resources it has. client-go's discovery client does so
// too, but it links the types of every built-in API and OpenAPI's, a third of a program that lists
// and watches.
package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/source"
)

// defaultTimeout bounds a request where the rest.Config does not. It is client-go's.
const defaultTimeout = 32 * time.Second

// Client asks one server. Its methods are safe for concurrent use.
type Client struct{ rest rest.Interface }

// New returns a client for the server that cfg names. It copies cfg and makes no request. It shares
// connections with the sources of equal configs.
func New(cfg *rest.Config) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "", nil
	cfg.QPS = -1 // each answer is asked for once, and few at a time
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	cfg.NegotiatedSerializer = codecs
	httpClient, err := source.HTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// codecs decode the Status of an error.
var codecs = func() runtime.NegotiatedSerializer {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(s).WithoutConversion()
}()

// REST returns what the client sends its requests with.
func (c *Client) REST() rest.Interface { return c.rest }

// GroupVersion asks for the resources of one version of a group.
func (c *Client) GroupVersion(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	path := "/apis/" + gv.Group + "/" + gv.Version
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	list := &metav1.APIResourceList{}
	_, err := c.get(ctx, path, runtime.ContentTypeJSON, func(string) any { return list })
	return list, err
}

// get asks for a path. into chooses by the answer's content type what it is decoded into.
func (c *Client) get(ctx context.Context, path, accept string, into func(contentType string) any) (any, error) {
	var contentType string
	result := c.rest.Get().AbsPath(path).SetHeader("Accept", accept).Do(ctx).ContentType(&contentType)
	if err := result.Error(); err != nil { // with the Status that the server sent, which Raw leaves out
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	answer := into(contentType)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, errors.Join(errMalformed, err))
	}
	return answer, nil
}

var errMalformed = errors.New("the answer is malformed")
