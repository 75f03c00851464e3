package source_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestNewestVersionKeepsItsConnection checks that NewestVersion reads a short response to its end,
// so that the next request can use the same connection. It must not read a long response to its
// end.
func TestNewestVersionKeepsItsConnection(t *testing.T) {
	for _, tc := range []struct {
		name string
		more int // objects after the requested one
		want int64
	}{
		{"one object", 0, 1},
		{"all objects", 4000, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, connections := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				object := `{"x":"` + strings.Repeat("y", 1000) + `"}`
				w.Header().Set("Content-Type", wire.ContentTypeJSON)
				io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[`+object)
				w.(http.Flusher).Flush()
				io.WriteString(w, strings.Repeat(","+object, tc.more)+`]}`)
			})
			src, err := source.New(cfg, pods, source.Options{})
			check.NoError(t, err)
			defer src.CloseIdleConnections()
			for range 5 {
				if rv, err := src.NewestVersion(t.Context(), metav1.ListOptions{}); rv != "7" || err != nil {
					t.Fatalf("%q, %v", rv, err)
				}
			}
			check.Equal(t, connections.Load(), tc.want, "connections")
		})
	}
}

// TestNewestVersionStalls checks that NewestVersion returns within a second after it received the
// resourceVersion, although the response does not end.
func TestNewestVersionStalls(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.ContentTypeJSON)
		io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[{}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, source.Options{}, func(t *testing.T, src *source.REST) {
		began := time.Now()
		rv, err := src.NewestVersion(t.Context(), metav1.ListOptions{})
		if rv != "7" || err != nil || time.Since(began) > time.Second {
			t.Errorf("%q, %v after %v", rv, err, time.Since(began))
		}
	})
}
