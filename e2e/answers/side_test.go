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

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
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
	// cached says that the proxy has answered from its cache.
	cached bool
}

// ask makes a GET. If events is not 0, it is a WATCH, of which it reads as many events as are of
// the objects that are compared.
func (s *side) ask(ctx context.Context, target, accept string, events int) (*answer, error) {
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
	if events == 0 || a.code != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		a.parts = [][]byte{body}
		return a, err
	}
	for next := frames(resp); len(a.parts) < events; {
		frame, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("after %d events: %w", len(a.parts), err)
		}
		if bytes.Contains(frame, []byte(prefix)) {
			a.parts = append(a.parts, frame)
		}
	}
	return a, nil
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
