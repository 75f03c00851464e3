// Command external-dns runs external-dns' sources for services and pods, combined as external-dns'
// own main package does. It reports the endpoints, which are the DNS records that external-dns
// would create (see package report).
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/source"
	"sigs.k8s.io/external-dns/source/wrappers"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

// flags are external-dns' command line flags.
var flags = []string{
	"--provider=inmemory", "--source=service", "--source=pod", "--pod-source-domain=pods.example.org",
}

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := externaldns.NewConfig()
	if err := cfg.ParseFlags(flags); err != nil {
		return err
	}
	cfg.KubeConfig = os.Getenv("KUBECONFIG")
	config, err := source.NewSourceConfig(cfg)
	if err != nil {
		return err
	}
	var r records
	go func() { // returns after all informers have synced
		built, err := wrappers.Build(ctx, config)
		report.Check(err)
		r.source.Store(&built)
	}()
	return report.Serve(report.Knowledge{Count: func() int { return len(r.endpoints()) }, All: r.all})
}

// records are the DNS records that external-dns' sources derive from the cluster.
type records struct {
	source atomic.Pointer[source.Source] // nil until wrappers.Build returns
}

// endpoints returns the current endpoints of the sources. It returns none before the sources are
// built.
func (r *records) endpoints() []*endpoint.Endpoint {
	built := r.source.Load()
	if built == nil {
		return nil
	}
	found, err := (*built).Endpoints(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "external-dns:", err)
	}
	return found
}

// record is an endpoint and the objects from which external-dns derived it.
type record struct {
	Endpoint *endpoint.Endpoint `json:"endpoint"`
	Of       []string           `json:"of"`
}

// all returns the records by DNS name and record type.
func (r *records) all() map[string]any {
	all := map[string]any{}
	for _, e := range r.endpoints() {
		it := record{Endpoint: e}
		for _, o := range e.RefObjects() {
			it.Of = append(it.Of, fmt.Sprint(o.Source(), ": ", o.Kind(), " ", o.Namespace(), "/", o.Name(), " ", o.UID()))
		}
		slices.Sort(it.Of)
		all[e.DNSName+" "+e.RecordType] = it
	}
	return all
}
