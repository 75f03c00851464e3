package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// podInformers build informers that send a LIST first, not a WATCH with initial events.
var podInformers = map[string]func(cfg *rest.Config) cache.SharedIndexInformer{
	"client-go": func(cfg *rest.Config) cache.SharedIndexInformer {
		return newClientGo(noWatchList{podsOf(cfg)}, &corev1.Pod{}, 0, cache.Indexers{})
	},
	"weir": func(cfg *rest.Config) cache.SharedIndexInformer {
		return NewSharedIndexInformer(noWatchList{podsOf(capturing(cfg))}, &corev1.Pod{}, 0, nil)
	},
	"weir, not wrapped": func(cfg *rest.Config) cache.SharedIndexInformer {
		return NewSharedIndexInformer(noWatchList{podsOf(cfg)}, &corev1.Pod{}, 0, nil)
	},
}

// TestWatchErrorHandlerCalls checks the number of calls of watch error handlers for each kind of
// failure, with client-go's informer and with Weir's.
func TestWatchErrorHandlerCalls(t *testing.T) {
	silent(t)
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
	expired := apierrors.NewResourceExpired("too old")
	busy := apierrors.NewTooManyRequestsError("later")
	failed := apierrors.NewInternalError(errors.New("broken"))
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s", ResourceVersion: "6"}}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	late := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	for name, test := range map[string]struct {
		first error             // error of the first LIST
		fails func(*failServer) // called after the informer has synced
		calls int
	}{
		"nothing":                  {},
		"stream breaks":            {fails: func(s *failServer) { s.end(syscall.ECONNRESET) }},
		"stream ends":              {fails: func(s *failServer) { s.end(io.EOF) }},
		"streams end at once":      {fails: func(s *failServer) { s.refuse("watch", errEnd, errEnd, errEnd, errEnd) }},
		"410 in the stream":        {fails: func(s *failServer) { s.send("ERROR", statusOf(expired)) }},
		"429 in the stream":        {fails: func(s *failServer) { s.send("ERROR", statusOf(busy)) }},
		"500 in the stream":        {fails: func(s *failServer) { s.send("ERROR", statusOf(failed)) }},
		"another type":             {fails: func(s *failServer) { s.send("ADDED", secret) }},
		"no JSON":                  {fails: func(s *failServer) { s.send("ADDED", json.RawMessage(`"a"`)) }},
		"WATCH forbidden":          {fails: func(s *failServer) { s.refuse("watch", forbidden) }, calls: 1},
		"WATCH too old":            {fails: func(s *failServer) { s.refuse("watch", expired) }, calls: 1},
		"WATCH fails":              {fails: func(s *failServer) { s.refuse("watch", failed) }, calls: 1},
		"WATCH later":              {fails: func(s *failServer) { s.refuse("watch", busy, busy) }},
		"WATCH unreachable":        {fails: func(s *failServer) { s.refuse("watch", refused, refused) }},
		"WATCH breaks":             {fails: func(s *failServer) { s.refuse("watch", reset) }},
		"WATCH times out":          {fails: func(s *failServer) { s.refuse("watch", late) }},
		"outage":                   {fails: func(s *failServer) { s.outage(refused, time.Minute) }},
		"relist forbidden":         {fails: func(s *failServer) { s.relist(expired, forbidden) }, calls: 1},
		"relist unreachable":       {fails: func(s *failServer) { s.relist(expired, refused) }, calls: 1},
		"relist too old":           {fails: func(s *failServer) { s.relist(expired, expired) }},
		"first LIST forbidden":     {first: forbidden, calls: 1},
		"first LIST unreachable":   {first: refused, calls: 1},
		"first LIST later":         {first: busy, calls: 1},
		"first LIST cannot be had": {first: failed, calls: 1},
	} {
		for maker, build := range podInformers {
			t.Run(name+"/"+maker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if errs := watchErrors(t, build, test.first, test.fails); len(errs) != test.calls {
						t.Errorf("%d calls, want %d: %v", len(errs), test.calls, errs)
					}
				})
			})
		}
	}
}

// watchErrors runs an informer and returns the errors that its watch error handler receives. If
// first is not nil, the first LIST fails with it. watchErrors calls fails after the informer has
// synced.
func watchErrors(t *testing.T, build func(*rest.Config) cache.SharedIndexInformer, first error, fails func(*failServer)) (errs []error) {
	server := &failServer{refusals: map[string][]error{}}
	if first != nil {
		server.refusals["list"] = []error{first}
	}
	inf := build(&rest.Config{Host: "http://server", Transport: server, QPS: -1})
	check.NoError(t, inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { errs = append(errs, err) }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); inf.RunWithContext(ctx) }()
	time.Sleep(30 * time.Second)
	if !inf.HasSynced() {
		t.Error("not synced")
	}
	if fails != nil {
		fails(server)
	}
	time.Sleep(3 * time.Minute)
	cancel()
	<-ended
	return errs
}

// errEnd ends a watch as soon as it has started.
var errEnd = errors.New("the watch ends")

// failServer is a RoundTripper that acts as a server without pods. Tests make requests to it fail.
type failServer struct {
	mu       sync.Mutex
	down     error
	refusals map[string][]error // errors of the next requests, by verb
	stream   *io.PipeWriter     // body of the last watch
}

// refuse ends the watch, and makes the next requests of a verb fail with errs.
func (s *failServer) refuse(verb string, errs ...error) {
	s.mu.Lock()
	s.refusals[verb] = errs
	s.mu.Unlock()
	s.end(io.EOF)
}

// relist ends the watch with an ERROR event, and makes the next LIST fail.
func (s *failServer) relist(watch, list error) {
	s.mu.Lock()
	s.refusals["list"] = []error{list}
	s.mu.Unlock()
	s.send("ERROR", statusOf(watch))
}

// outage ends the watch, and makes all requests fail for the duration d.
func (s *failServer) outage(err error, d time.Duration) {
	s.setDown(err)
	s.end(io.EOF)
	time.Sleep(d)
	s.setDown(nil)
}

func (s *failServer) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *failServer) end(err error) { s.open().CloseWithError(err) }

func (s *failServer) send(event string, object any) {
	if err := json.NewEncoder(s.open()).Encode(map[string]any{"type": event, "object": object}); err != nil {
		panic(err) // cannot happen: a client reads the stream
	}
}

func (s *failServer) open() *io.PipeWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

func (s *failServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb := "list"
	if req.URL.Query().Has("watch") {
		verb = "watch"
	}
	err := s.down
	if refusals := s.refusals[verb]; err == nil && len(refusals) > 0 {
		err, s.refusals[verb] = refusals[0], refusals[1:]
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
	switch status, refused := err.(apierrors.APIStatus); {
	case refused:
		text, marshalErr := json.Marshal(statusOf(err))
		if marshalErr != nil {
			return nil, marshalErr
		}
		resp.StatusCode, resp.Body = int(status.Status().Code), io.NopCloser(strings.NewReader(string(text)))
	case err != nil && err != errEnd:
		return nil, err
	case verb == "list":
		resp.Body = io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`))
	default:
		r, w := io.Pipe()
		if context.AfterFunc(req.Context(), func() { r.CloseWithError(context.Cause(req.Context())) }); err == errEnd {
			w.Close()
		}
		resp.Body, s.stream = r, w
	}
	return resp, nil
}

// TestNoWatchErrorHandler checks that the informer uses client-go's default handler if the program
// sets none.
func TestNoWatchErrorHandler(t *testing.T) {
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				reported := ""
				silent(t, func(_ context.Context, _ error, msg string, _ ...any) {
					reported = msg
					cancel()
				})
				inf := make(podsOf(&rest.Config{Host: "http://server", Transport: notServed{}}), &corev1.Pod{}, 0, cache.Indexers{})
				check.NoError(t, inf.SetWatchErrorHandlerWithContext(nil))
				if inf.RunWithContext(ctx); reported != "Failed to watch" {
					t.Errorf("reported %q", reported)
				}
			})
		})
	}
}

// notServed is a RoundTripper that acts as a server that does not serve the resource.
type notServed struct{}

func (notServed) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}
