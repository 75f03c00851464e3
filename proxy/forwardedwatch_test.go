package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// TestForwardedWatchEndsBetweenEvents: whenever a watch that is forwarded is ended, and however its
// body is cut into reads, its client gets whole events, the first ones, and then the end.
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
				r, p := fs.begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), cancel)
				resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {format}}, Body: from, Request: r}
				if err := wrapWatchBody(resp); err != nil {
					t.Fatal(err)
				}
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

// TestForwardedWatchBreaks: what breaks off by itself is not taken for an end in good order.
func TestForwardedWatchBreaks(t *testing.T) {
	broken := errors.New("broken")
	for _, format := range []string{"application/json", "application/cbor-seq"} {
		var fs forwardedWatches
		r, p := fs.begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), func() {})
		from, to := io.Pipe()
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {format}}, Body: from, Request: r}
		if err := wrapWatchBody(resp); err != nil {
			t.Fatal(err)
		}
		go func() {
			fmt.Fprint(to, "half an event")
			to.CloseWithError(broken)
		}()
		if got, err := io.ReadAll(resp.Body); !errors.Is(err, broken) || string(got) != "half an event" {
			t.Errorf("%s: %q, %v", format, got, err)
		}
		fs.forget(p)
	}
}
