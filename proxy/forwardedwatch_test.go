package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestForwardedWatchEndsBetweenEvents checks that the client of a forwarded watch receives a prefix
// of the events, all of them whole, and then the end. It ends the watch at random points, with
// random divisions of the body into reads.
func TestForwardedWatchEndsBetweenEvents(t *testing.T) {
	formats := map[string]func(n int) []byte{
		"application/json": func(n int) []byte { return append(bytes.Repeat([]byte("j"), n), '\n') },
		"application/vnd.kubernetes.protobuf;stream=watch": func(n int) []byte {
			return append(binary.BigEndian.AppendUint32(nil, uint32(n)), bytes.Repeat([]byte("\n"), n)...)
		},
	}
	for format, event := range formats {
		for seed := range uint64(300) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				var all []byte
				ends := map[int]bool{0: true}
				for range 20 {
					all = append(all, event(rnd.IntN(12))...)
					ends[len(all)] = true
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				from, to := io.Pipe()
				defer context.AfterFunc(ctx, func() { from.CloseWithError(context.Canceled) })()
				var fs forwardedWatches
				p := fs.begin(httptest.NewRecorder(), cancel)
				resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {format}}, Body: from}
				check.NoError(t, p.wrapBody(resp))
				go func() {
					defer to.Close()
					endsAt := rnd.IntN(len(all) + 1)
					for at := 0; at < len(all); {
						n := 1 + rnd.IntN(min(9, len(all)-at))
						if _, err := to.Write(all[at : at+n]); err != nil {
							return
						}
						if at += n; at >= endsAt {
							synctest.Wait()
							fs.drain(0)
							synctest.Wait()
						}
					}
				}()
				got, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.HasPrefix(all, got) || !ends[len(got)] {
					t.Fatalf("%s, seed %d: %d of %d bytes, %v", format, seed, len(got), len(all), err)
				}
				fs.forget(p)
				from.Close()
			})
		}
	}
}

// TestForwardedWebSocket checks that the proxy treats a watch over a WebSocket as a watch. A watch
// that resumes from before a restore gets 410. When the proxy ends watches, it closes the
// connection of the WebSocket.
func TestForwardedWebSocket(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	over := make(chan struct{})
	defer close(over)
	u.upgradeUntil(over)
	restores := &tp.server.mirror.Restores
	restores.SessionBegan(schema.GroupVersionResource{Version: "v1", Resource: "reviews"})
	restores.Observe(100)
	restores.WentBack()
	const watch = "/api/v1/reviews?watch=true"
	if resp := tp.openWebSocket(watch + "&resourceVersion=7"); resp.StatusCode != http.StatusGone {
		t.Errorf("from before a restore: %s", resp.Status)
	}
	resp := tp.openWebSocket(watch)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	tp.server.forwardedWatches.endAll()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	select {
	case <-ended:
	case <-tp.ctx.Done():
		resp.Body.Close()
		t.Error("the connection stays open")
	}
	tp.until("nothing is left of it", func() bool { return tp.server.forwardedWatches.count() == 0 })
}

// TestForwardedWebSocketEndsEarly ends a watch before the upstream has upgraded the connection. It
// checks that the request is canceled when the connection is upgraded.
func TestForwardedWebSocketEndsEarly(t *testing.T) {
	var fs forwardedWatches
	ctx, cancel := context.WithCancel(t.Context())
	p := fs.begin(httptest.NewRecorder(), cancel)
	defer fs.forget(p)
	fs.endAll()
	resp := &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: http.NoBody}
	if err := p.wrapBody(resp); err != nil || ctx.Err() == nil {
		t.Errorf("it goes on: %v", err)
	}
}

// TestForwardedWatchBreaks checks that the client gets an error if a stream breaks. It gets none if
// the connection to the upstream broke between two events and the client can resume there.
func TestForwardedWatchBreaks(t *testing.T) {
	const event, end = "an event\n", `{"metadata":{"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}}}` + "\n"
	const initial = "resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	for _, tt := range []struct {
		format, query, body string
		ends                bool
	}{
		{"application/json", "resourceVersion=7", event, true},
		{"application/json", "resourceVersion=7", "", true},
		{"application/json", "resourceVersion=opaque", event, true},
		{"application/json", initial, event + end, true},
		{"application/json", initial, event + end + event, true},
		{"application/json", initial, event, false},
		{"application/json", initial, event + end[:20], false},
		{"application/vnd.kubernetes.protobuf;stream=watch", "resourceVersion=7", "\x00\x00\x00\x01x", true},
		{"application/json", "resourceVersion=7", event + "half an event", false},
		{"application/vnd.kubernetes.protobuf;stream=watch", "resourceVersion=7", "\x00\x00\x00\x02x", false},
		{"application/json", "", event, false}, // the event may be only a part of the initial state
		{"application/json", "resourceVersion=0", event, false},
		{"application/cbor-seq", "resourceVersion=7", event, false},
		{"application/cbor-seq", "resourceVersion=7", "half an event", false},
	} {
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer")} {
			var fs forwardedWatches
			p := fs.begin(httptest.NewRecorder(), func() {})
			p.setStart(request.Query(tt.query))
			from, to := io.Pipe()
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {tt.format}}, Body: from}
			check.NoError(t, p.wrapBody(resp))
			go func() {
				for part := range slices.Chunk([]byte(tt.body), 7) {
					to.Write(part)
				}
				to.CloseWithError(broken)
			}()
			got, err := io.ReadAll(resp.Body)
			if ended, want := err == nil, tt.ends && broken == io.ErrUnexpectedEOF; ended != want || !ended && !errors.Is(err, broken) || string(got) != tt.body {
				t.Errorf("%+v: %q, %v", tt, got, err)
			}
			fs.forget(p)
		}
	}
}

// TestForwardedWatchOfStoppedServer breaks the connection to the API server between two events.
// It checks that the body of the watch ends without an error, over HTTP/2 too.
func TestForwardedWatchOfStoppedServer(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	writer := u.writer().CoreV1().ConfigMaps("default")
	made, err := writer.Create(tp.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before"}}, metav1.CreateOptions{})
	check.NoError(t, err)
	resp := tp.open(tp.client, http.MethodGet, "/api/v1/configmaps?watch=true&resourceVersion="+made.ResourceVersion, "Authorization", "Bearer token-jane")
	must(t)(writer.Create(tp.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}))
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); err != nil || !strings.Contains(line, `"after"`) || resp.ProtoMajor != 2 {
		t.Fatalf("%s: %q, %v", resp.Proto, line, err)
	}
	u.tls.CloseClientConnections()
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
