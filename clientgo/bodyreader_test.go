package clientgo

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clienttransport "k8s.io/client-go/transport"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// bodyReader is a RoundTripper that stores the bodies of LISTs.
type bodyReader struct {
	next http.RoundTripper

	mu   *sync.Mutex
	text *bytes.Buffer
}

func (b bodyReader) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil && req.URL.Query().Get("watch") == "" {
		resp.Body = readCloser{io.TeeReader(resp.Body, b), resp.Body}
	}
	return resp, err
}

func (b bodyReader) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// unwrapping is a bodyReader that also returns the RoundTripper that it wraps.
type unwrapping struct{ bodyReader }

func (u unwrapping) WrappedRoundTripper() http.RoundTripper { return u.next }

// TestBodyReader uses a RoundTripper that was installed before Wrap. With Weir's informer, as with
// client-go's, it must be able to read response bodies. Weir's informer must still capture the
// bodies.
func TestBodyReader(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	for which, newInformer := range map[string]func(cfg *rest.Config) cache.SharedIndexInformer{
		"client-go": func(cfg *rest.Config) cache.SharedIndexInformer {
			return newClientGo(noWatchList{podsOf(cfg)}, &corev1.Pod{}, 0, nil)
		},
		"weir": func(cfg *rest.Config) cache.SharedIndexInformer {
			return NewSharedIndexInformer(podsOf(capturing(cfg)), &corev1.Pod{}, 0, nil)
		},
	} {
		for name, wrap := range map[string]func(bodyReader) http.RoundTripper{
			"opaque":     func(b bodyReader) http.RoundTripper { return b },
			"unwrapping": func(b bodyReader) http.RoundTripper { return unwrapping{b} },
		} {
			t.Run(which+", "+name, func(t *testing.T) {
				reader := bodyReader{mu: &sync.Mutex{}, text: &bytes.Buffer{}}
				cfg := rest.CopyConfig(server.Config())
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
					reader.next = next
					return wrap(reader)
				})
				inf := newInformer(cfg)
				runSynced(t, inf)
				reader.mu.Lock()
				if text := reader.text.Bytes(); !bytes.Contains(text, []byte("PodList")) {
					t.Errorf("read %d bytes: %.20q", len(text), text)
				}
				reader.mu.Unlock()
				if ours, ok := inf.(*informer); ok && ours.store.Memory().Objects != 300 {
					t.Errorf("holds %d pods", ours.store.Memory().Objects)
				} else if ok && ours.stats.BodyBytes.Load() == 0 {
					t.Error("not captured")
				}
			})
		}
	}
}

// TestCompressionBelow checks that this package decompresses bodies itself, unless a RoundTripper
// of another package could read the bodies first.
func TestCompressionBelow(t *testing.T) {
	plain := &http.Transport{DisableCompression: true}
	var typed http.RoundTripper = &http.Transport{}
	for name, test := range map[string]struct {
		below http.RoundTripper
		want  compression
	}{
		"net/http's":                     {typed, compressed},
		"client-go's":                    {clienttransport.NewUserAgentRoundTripper("agent", clienttransport.NewBearerAuthRoundTripper("token", typed)), compressed},
		"ours":                           {&transport{next: typed}, compressed},
		"opaque":                         {bodyReader{next: typed}, decompressed},
		"unwrapping":                     {clienttransport.NewUserAgentRoundTripper("agent", unwrapping{bodyReader{next: typed}}), decompressed},
		"off":                            {clienttransport.NewUserAgentRoundTripper("agent", plain), uncompressed},
		"off below another RoundTripper": {unwrapping{bodyReader{next: plain}}, uncompressed},
	} {
		check.Equal(t, compressionBelow(test.below), test.want, "%s", name)
	}
}
