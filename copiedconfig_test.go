package weir_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
)

// recordingTransport sends its first request to the channel, and answers each request with 403.
type recordingTransport chan *http.Request

func (t recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case t <- r:
	default:
	}
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
}

// TestConfigIsCopied checks that Weir copies a rest.Config: a caller that changes the config later
// does not change Weir's requests.
func TestConfigIsCopied(t *testing.T) {
	for name, made := range map[string]func(*testing.T, *rest.Config) (run func(context.Context) error){
		"NewFactory": func(t *testing.T, cfg *rest.Config) func(context.Context) error {
			f := weir.NewFactory(t.Context(), cfg)
			return func(ctx context.Context) error {
				_, err := weir.Acquire[*corev1.Pod](f, weir.Options{})
				<-ctx.Done()
				return errors.Join(err, f.Shutdown())
			}
		},
		"NewInformer": func(t *testing.T, cfg *rest.Config) func(context.Context) error {
			inf, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{})
			check.NoError(t, err)
			return inf.Run
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(recordingTransport, 1)
			cfg := &rest.Config{Host: "http://right.test", Transport: requests, BearerToken: "right"}
			cfg.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"right"}, Extra: map[string][]string{"scope": {"right"}}}
			run := made(t, cfg)
			cfg.Host, cfg.BearerToken, cfg.Impersonate.UserName = "http://wrong.test", "wrong", "joe"
			cfg.Impersonate.Groups[0], cfg.Impersonate.Extra["scope"][0], cfg.Impersonate.Extra["other"] = "wrong", "wrong", []string{"wrong"}

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			r := <-requests
			cancel()
			check.NoError(t, <-ended)
			h := r.Header
			for _, c := range []struct{ got, want string }{
				{r.URL.Host, "right.test"},
				{h.Get("Authorization"), "Bearer right"},
				{h.Get("Impersonate-User"), "jane"},
				{h.Get("Impersonate-Group"), "right"},
				{h.Get("Impersonate-Extra-Scope"), "right"},
				{h.Get("Impersonate-Extra-Other"), ""},
			} {
				check.Equal(t, c.got, c.want, "was sent")
			}
		})
	}
}
