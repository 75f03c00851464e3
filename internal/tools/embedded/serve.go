// Package embedded is the embedded API server, which runs in a child process that package process
// starts. A program that imports this package links the Go types of all built-in kinds.
package embedded

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/secure"
	"github.com/weirproject/weir/internal/tools/process"
)

// Serve runs the server in the child process. It blocks until ctx ends or the parent closes the
// input. If the server cannot start, Serve reports the error to the parent and returns it.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s process.ServerSpec
	return process.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
		told := false
		err := serve(ctx, s, func(r process.ServerReady) error {
			told = true
			return send(r)
		})
		if err == nil || told {
			return err
		}
		failure := process.ServerReady{Failure: err.Error()}
		if wrong, ok := errors.AsType[*net.AddrError](err); ok {
			failure.Address = wrong.Err
		}
		return errors.Join(err, send(failure))
	})
}

func serve(ctx context.Context, s process.ServerSpec, send func(process.ServerReady) error) error {
	faults := &apiserver.Faults{}
	faults.WatchBuffer(s.WatchBuffer)
	o := apiserver.Options{
		Listen: s.Listen, Pods: s.Pods, Population: s.Population, Churn: float64(s.Churn), Seed: s.Seed, Faults: faults,
	}
	for _, r := range s.Resources {
		o.Resources = append(o.Resources, apiserver.Resource{
			GroupVersionResource: r.GroupVersionResource, Kind: r.Kind, Namespaced: r.Namespaced, Status: true,
		})
	}
	objects, err := apiserver.New(o)
	if err != nil {
		return err
	}
	defer objects.Close()
	if !s.Metrics {
		if err := objects.Start(); err != nil {
			return err
		}
		if err := send(process.ServerReady{URL: objects.URL()}); err != nil {
			return err
		}
		<-ctx.Done()
		return objects.Close()
	}
	var h http.Handler = objects
	if s.Whole {
		h = whole{h}
	}
	return serveMetrics(ctx, h, s.TLS, send)
}

// serveMetrics serves the objects and /metrics until ctx ends. It passes the server's URL to send.
func serveMetrics(
	ctx context.Context, objects http.Handler, encrypted bool, send func(process.ServerReady) error,
) error {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: metrics{objects}, ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	r, serve := process.ServerReady{URL: "http://" + l.Addr().String()}, server.Serve
	if encrypted {
		if server.TLSConfig, r.CA, err = selfSigned(); err != nil {
			return errors.Join(err, l.Close())
		}
		r.URL = "https://" + l.Addr().String()
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := send(r); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// loopback is the address on which the server listens.
const loopback = "127.0.0.1"

// certificateAge is how long a certificate is valid. No measurement takes longer.
const certificateAge = 30 * 24 * time.Hour

// selfSigned returns the TLS configuration of a server with a new certificate, and the certificate
// of its CA as PEM.
func selfSigned() (cfg *tls.Config, ca []byte, err error) {
	authority, err := secure.NewAuthority("weir-ca", certificateAge)
	if err != nil {
		return nil, nil, err
	}
	pair, err := authority.Issue("weir", certificateAge, loopback)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{*pair}}, authority.PEM(), nil
}

// metrics is a handler that answers /metrics with this process's resource usage. The names of the
// metrics are those of Prometheus' client library, which kube-apiserver uses too.
type metrics struct{ objects http.Handler }

func (h metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		h.objects.ServeHTTP(w, r)
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "process_cpu_seconds_total %v\ngo_memstats_alloc_bytes_total %d\n", process.CPUTime().Seconds(), m.TotalAlloc)
	if resident, ok := process.RSS(); ok {
		fmt.Fprintf(w, "process_resident_memory_bytes %d\n", resident)
	}
}

// whole is a handler that builds an answer in memory before it sends the answer, as kube-apiserver
// did until it encoded lists item by item. whole does not do so for watches.
type whole struct{ objects http.Handler }

func (h whole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if request.QueryOf(r.URL).Flag("watch") {
		h.objects.ServeHTTP(w, r)
		return
	}
	body := &heldBody{ResponseWriter: w, code: http.StatusOK}
	h.objects.ServeHTTP(body, r)
	w.WriteHeader(body.code)
	for _, piece := range body.pieces {
		if _, err := w.Write(piece); err != nil {
			return // the client has disconnected
		}
	}
}

// heldBody is a ResponseWriter that stores the written bytes. It stores each write as a separate
// piece: one growing buffer would take more memory than the bytes need.
type heldBody struct {
	http.ResponseWriter
	code   int
	pieces [][]byte
}

func (b *heldBody) WriteHeader(code int) { b.code = code }

func (b *heldBody) Write(p []byte) (int, error) {
	b.pieces = append(b.pieces, bytes.Clone(p))
	return len(p), nil
}
