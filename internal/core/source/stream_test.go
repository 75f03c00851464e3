package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// inMemory runs f in a synctest bubble, with a Source whose server has handler h.
func inMemory(t *testing.T, h http.HandlerFunc, opts source.Options, f func(t *testing.T, src *source.REST)) {
	synctest.Test(t, func(t *testing.T) {
		l := testenv.Listen()
		srv := &http.Server{Handler: h}
		go srv.Serve(l)
		tr := &http.Transport{DialContext: l.Dial}
		src, err := source.New(&rest.Config{Host: "http://pipe", Transport: tr}, pods, opts)
		check.NoError(t, err)
		f(t, src)
		tr.CloseIdleConnections()
		srv.Close()
	})
}

func TestListStalls(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, podList[:len(podList)-40])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, source.Options{IdleTimeout: 5 * time.Second}, func(t *testing.T, src *source.REST) {
		l, err := src.List(context.Background(), metav1.ListOptions{})
		check.NoError(t, err)
		defer l.Close()
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for err == nil {
			_, err = l.Next()
		}
		if !errors.Is(err, source.ErrStalled) || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestSlowReaderIsNoStall checks that a LIST does not fail if its reader takes a minute per item,
// longer than IdleTimeout.
func TestSlowReaderIsNoStall(t *testing.T) {
	const items = 300
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[`)
		for i := range items {
			if i > 0 {
				io.WriteString(w, ",")
			}
			fmt.Fprintf(w, `{"metadata":{"name":"p%d","uid":"u","resourceVersion":"1"},"x":"%01000d"}`, i, i)
		}
		io.WriteString(w, "]}")
	}, source.Options{IdleTimeout: 5 * time.Second}, func(t *testing.T, src *source.REST) {
		l, err := src.List(context.Background(), metav1.ListOptions{})
		check.NoError(t, err)
		defer l.Close()
		n := 0
		for ; err == nil; n++ {
			_, err = l.Next()
			time.Sleep(time.Minute)
		}
		if err != io.EOF || n != items+1 {
			t.Errorf("after %d items: %v", n-1, err)
		}
	})
}

// TestClosedWhileFull checks that Close ends a watch whose ring is full. synctest and goleak fail
// if a goroutine remains.
func TestClosedWhileFull(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}}`); err != nil {
				return
			}
		}
	}, source.Options{}, func(t *testing.T, src *source.REST) {
		watch, err := src.Watch(context.Background(), metav1.ListOptions{})
		check.NoError(t, err)
		if _, err := watch.Next(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := watch.Close(); err != nil {
			t.Error(err)
		}
		for err == nil {
			_, err = watch.Next()
		}
		check.ErrorIs(t, err, net.ErrClosed, "after Close")
	})
}

func TestAnswerNeverBegins(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, source.Options{},
		func(t *testing.T, src *source.REST) {
			start := time.Now()
			_, err := src.List(context.Background(), metav1.ListOptions{})
			if !errors.Is(err, source.ErrStalled) || time.Since(start) != 75*time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		})
}

func TestErrorBodyStalls(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 500, "application/json", "{")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, source.Options{}, func(t *testing.T, src *source.REST) {
		if _, err := src.Watch(context.Background(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
			t.Errorf("%v", err)
		}
	})
}

func TestWatchOutlivesItsTimeout(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, source.Options{}, func(t *testing.T, src *source.REST) {
		watch, err := src.Watch(context.Background(), metav1.ListOptions{TimeoutSeconds: new(int64(300))})
		check.NoError(t, err)
		defer watch.Close()
		start := time.Now()
		if _, err := watch.Next(); !errors.Is(err, source.ErrStalled) || time.Since(start) != 5*time.Minute+30*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestEndOfStream checks that Close, or the end of the context, makes a waiting Next fail
// immediately with the right cause.
func TestEndOfStream(t *testing.T) {
	reason := errors.New("the owner has had enough")
	for _, byContext := range []bool{false, true} {
		inMemory(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, source.Options{}, func(t *testing.T, src *source.REST) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			watch, err := src.Watch(ctx, metav1.ListOptions{})
			check.NoError(t, err)
			go func() {
				synctest.Wait()
				if byContext {
					cancel(reason)
				} else {
					watch.Close()
				}
			}()
			_, err = watch.Next()
			if want := map[bool]error{false: net.ErrClosed, true: reason}[byContext]; !errors.Is(err, want) {
				t.Errorf("%v: %v", byContext, err)
			}
			watch.Close()
			if err := watch.Close(); err != nil {
				t.Errorf("the second Close: %v", err)
			}
		})
	}
}

// TestCloseDrainsNothing checks that Close ends an endless list, without reading the rest.
func TestCloseDrainsNothing(t *testing.T) {
	ended := make(chan struct{})
	src := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}}`)
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintf(w, `,{"metadata":{"name":"%s"}}`, strings.Repeat("a", 10000)); err != nil {
				return
			}
		}
	}, source.Options{})
	l, err := src.List(context.Background(), metav1.ListOptions{})
	check.NoError(t, err)
	if _, err := l.Next(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestBeforeRead checks that Next calls the function before it waits for the second half of an
// event. During that wait, the caller can apply the first event.
func TestBeforeRead(t *testing.T) {
	const event = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}`
	r, w := io.Pipe()
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: r}
	watch, err := source.NewWatch(resp, 0, source.Options{})
	check.NoError(t, err)
	defer watch.Close()
	seen, calls := 0, make(chan int, 100)
	watch.BeforeRead(func() { calls <- seen })
	go func() {
		io.WriteString(w, event+"\n"+event[:20])
		for <-calls != 1 { // until Next waits after it returned one event
		}
		io.WriteString(w, event[20:])
		w.Close()
	}()
	for {
		_, err := watch.Next()
		if err == io.EOF {
			break
		}
		check.NoError(t, err)
		seen++
	}
	check.Equal(t, seen, 2, "events")
}

// TestForeignAnswer checks that NewList and NewWatch read a response that another client received.
func TestForeignAnswer(t *testing.T) {
	body := io.NopCloser(bytes.NewBufferString(podList))
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	stats := &source.Stats{}
	l, err := source.NewList(resp, source.Options{Stats: stats})
	check.NoError(t, err)
	if n := readAll(t, l); n != 2 || stats.BodyBytes.Load() != int64(len(podList)) {
		t.Errorf("%d objects", n)
	}
	l.Close()
	resp = &http.Response{StatusCode: 403, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
	if _, err := source.NewWatch(resp, time.Minute, source.Options{}); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

func TestCloseIdleConnections(t *testing.T) {
	closed := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, "application/json", podList)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(closed)
		}
	}
	srv.Start()
	defer srv.Close()
	src, err := source.New(&rest.Config{Host: srv.URL, Transport: &http.Transport{}}, pods, source.Options{})
	check.NoError(t, err)
	l, err := src.List(context.Background(), metav1.ListOptions{})
	check.NoError(t, err)
	readAll(t, l)
	l.Close()
	src.CloseIdleConnections()
	<-closed
}

// TestConnectionIsUsedAgain checks that several LISTs use the same connection.
func TestConnectionIsUsedAgain(t *testing.T) {
	conns := map[string]bool{}
	src := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, podList)
		w.(http.Flusher).Flush() // sends chunks, so that the end of the body arrives after the last item
	}, source.Options{})
	for range 5 {
		l, err := src.List(context.Background(), metav1.ListOptions{})
		check.NoError(t, err)
		readAll(t, l)
		l.Close()
	}
	check.Equal(t, len(conns), 1, "connections")
}
