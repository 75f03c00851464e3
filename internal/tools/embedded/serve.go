// Package embedded is the embedded API server, which runs in a child process that package process
// starts. A program that imports this package links the Go types of all built-in kinds.
package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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

func serve(ctx context.Context, s process.ServerSpec, send func(process.ServerReady) error) (err error) {
	faults := &apiserver.Faults{}
	faults.WatchBuffer(s.WatchBuffer)
	o := apiserver.Options{Pods: s.Pods, Population: s.Population, Churn: float64(s.Churn), Seed: s.Seed, Faults: faults}
	for _, r := range s.Resources {
		o.Resources = append(o.Resources, apiserver.Resource{
			GroupVersionResource: r.GroupVersionResource, Kind: r.Kind, Namespaced: r.Namespaced, Status: true,
		})
	}
	if s.AuditLog != "" {
		log, err := openLog(s.AuditLog, maxLog)
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		defer log.Close()
		o.AuditLog = log
	}
	objects, err := apiserver.New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	var h http.Handler = objects
	if s.Whole {
		h = whole{h}
	}
	l, err := net.Listen("tcp", cmp.Or(s.Listen, loopback+":0"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: secure.LocalOnly(metrics{h}), ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	at := l.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() { // a client cannot connect to it on every system
		at.IP = net.ParseIP(loopback)
	}
	r, serve := process.ServerReady{URL: "http://" + at.String()}, server.Serve
	if s.TLS {
		if server.TLSConfig, r.CA, err = certificate(s, at.IP.String()); err != nil {
			return errors.Join(err, l.Close())
		}
		r.URL = "https://" + at.String()
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

// loopback is the address on which the server listens by default.
const loopback = "127.0.0.1"

// certificateAge is how long a new certificate is valid. No measurement takes longer.
const certificateAge = 30 * 24 * time.Hour

// certificate returns the TLS configuration of a server, and the certificates that its clients
// trust as PEM: the files that the specification names, or a new certificate and its new CA. The
// new certificate is also valid for ip, the address in the server's URL.
func certificate(s process.ServerSpec, ip string) (cfg *tls.Config, trusted []byte, err error) {
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, nil, err
		}
		trusted, err = os.ReadFile(s.CertFile)
		return &tls.Config{Certificates: []tls.Certificate{pair}}, trusted, err
	}
	authority, err := secure.NewAuthority("weir-ca", certificateAge)
	if err != nil {
		return nil, nil, err
	}
	hosts := []string{loopback, "::1", "localhost", ip}
	if host, _, err := net.SplitHostPort(s.Listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	pair, err := authority.Issue("weir", certificateAge, hosts...)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{*pair}}, authority.PEM(), nil
}

// metrics is a handler that adds this process's resource usage to the response for /metrics. The
// names of the metrics are those of Prometheus' client library, which kube-apiserver uses too.
type metrics struct{ objects http.Handler }

func (h metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.objects.ServeHTTP(w, r)
	if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
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
