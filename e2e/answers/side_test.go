package answers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
)

// side is one of the two that requests are sent to.
type side struct {
	host, token string
	client      *http.Client
}

func newSide(t *testing.T, cfg *rest.Config) *side {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return &side{cfg.Host, cfg.BearerToken, cluster.HTTPClient(t, cfg)}
}

// answer is what one side says.
type answer struct {
	code      int
	mediaType string
	// parts are the events of a WATCH, or one body.
	parts [][]byte
	// cached reports that the proxy answered from its cache.
	cached bool
}

// ask sends a GET. If events is not 0, it is a WATCH, of which it reads that many events of the
// compared objects.
func (s *side) ask(ctx context.Context, target, accept string, events int) (*answer, error) {
	if events == 0 {
		return s.read(ctx, target, accept, nil)
	}
	return s.read(ctx, target, accept, func(frame []byte, n int) (take, last bool) {
		take = bytes.Contains(frame, []byte(prefix))
		return take, take && n == events-1
	})
}

// read sends a GET. If choose is not nil, it is a WATCH: choose decides whether to use an event,
// given the n used so far, and whether it is the last one to read.
func (s *side) read(ctx context.Context, target, accept string, choose func(frame []byte, n int) (take, last bool)) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a WATCH
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{code: resp.StatusCode, mediaType: resp.Header.Get("Content-Type"), cached: resp.Header.Get("Age") != ""}
	if choose == nil || a.code != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		a.parts = [][]byte{body}
		return a, err
	}
	for next, last := frames(resp), false; !last; {
		frame, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("after %d events: %w", len(a.parts), err)
		}
		var take bool
		if take, last = choose(frame, len(a.parts)); take {
			a.parts = append(a.parts, frame)
		}
	}
	return a, nil
}

// bookmark sends a WATCH, and returns the bookmark that ends its initial events, without its
// resourceVersion, which differs between the sides.
func (s *side) bookmark(ctx context.Context, target, accept string) (*answer, error) {
	a, err := s.read(ctx, target, accept, func(frame []byte, n int) (take, last bool) {
		end := bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey))
		return end, end
	})
	if err != nil || a.code != http.StatusOK {
		return a, err
	}
	if len(a.parts) == 0 {
		return a, errors.New("no bookmark ends the initial events")
	}
	enc := wire.JSON
	if a.mediaType != jsonType {
		enc = wire.Protobuf
	}
	event, err := wire.NewWatchReader(bytes.NewReader(a.parts[0]), enc, wire.Limits{}).Next()
	if err != nil {
		return a, err
	}
	var m wire.Meta
	if err := wire.ReadMeta(enc, event.Object, &m); err != nil {
		return a, err
	}
	object, err := wire.AppendWithResourceVersion(nil, enc, event.Object, "0")
	if err == nil && enc == wire.Protobuf {
		a.parts[0] = wire.AppendEvent(nil, enc, event.Type, event.TypeMeta, object)
	} else if err == nil {
		a.parts[0] = bytes.Replace(a.parts[0], event.Object, object, 1)
	}
	return a, err
}

// frames returns a function that reads the next event of a WATCH.
func frames(resp *http.Response) func() ([]byte, error) {
	in := bufio.NewReader(resp.Body)
	if resp.Header.Get("Content-Type") == jsonType {
		return func() ([]byte, error) { return in.ReadBytes('\n') }
	}
	return func() ([]byte, error) {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil, err
		}
		frame := append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
		_, err := io.ReadFull(in, frame[len(size):])
		return frame, err
	}
}
