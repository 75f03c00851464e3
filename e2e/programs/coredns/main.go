// Command coredns runs a CoreDNS server with the plugins kubernetes and transfer. It reports the
// server's zone and its answers to queries, which it receives over sockets as other clients do (see
// package report).
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/weirproject/weir/e2e/programs/report"
)

var queriesFlag = flag.String("queries", "", "file of queries, one per line: a name and a type")

func main() { report.Main(run) }

// zone is the zone of the cluster's services.
const zone = "cluster.local."

// corefile is the server's configuration. The argument is the path of a kubeconfig.
const corefile = `.:0 {
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig %q
		pods verified
		startup_timeout 10m
	}
	transfer {
		to *
	}
}`

func run() error {
	queries, err := readQueries(*queriesFlag)
	if err != nil {
		return err
	}
	if err := dnsserver.Register(); err != nil {
		return err
	}
	caddy.Quiet, dnsserver.Quiet = true, true
	c := client{queries: queries}
	go func() { // returns after the server has started, which is after all informers have synced
		server, err := caddy.Start(caddy.CaddyfileInput{
			Filepath: "Corefile", ServerTypeName: "dns", Contents: fmt.Appendf(nil, corefile, os.Getenv("KUBECONFIG")),
		})
		report.Check(err)
		listener := server.Servers()[0]
		c.addresses.Store(&addresses{udp: listener.LocalAddr().String(), tcp: listener.Addr().String()})
	}()
	return report.Serve(report.Knowledge{Count: c.count, All: c.all})
}

type query struct {
	name  string
	qtype uint16
}

func readQueries(path string) (queries []query, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, qtype, _ := strings.Cut(lines.Text(), " ")
		if dns.StringToType[qtype] == 0 {
			return nil, fmt.Errorf("%s: %q: a name and a type are wanted", path, lines.Text())
		}
		queries = append(queries, query{name, dns.StringToType[qtype]})
	}
	return queries, lines.Err()
}

// client is a client of the server.
type client struct {
	queries   []query
	addresses atomic.Pointer[addresses] // nil until the server has started
}

type addresses struct{ udp, tcp string }

// count transfers the zone, and returns the number of the services' records. It returns 0 until the
// server has started.
func (c *client) count() (n int) {
	if err := c.transfer(func(record dns.RR) error {
		if strings.HasSuffix(record.Header().Name, ".svc."+zone) {
			n++
		}
		return nil
	}); err != nil {
		fmt.Fprintln(os.Stderr, "coredns: zone transfer:", err)
		return 0
	}
	return n
}

// all returns the records of the zone by name, in the order of the transfer, and a hash of the
// bytes of all records. It also returns the bytes of each query's answer. After an error, it
// returns only the error, so that the test fails.
func (c *client) all() map[string]any {
	all, hash := map[string]any{}, sha256.New()
	buffer := make([]byte, dns.MaxMsgSize)
	if err := c.transfer(func(record dns.RR) error {
		withoutSerial(record)
		n, err := dns.PackRR(record, buffer, 0, nil, false)
		hash.Write(buffer[:n])
		name := "records of " + record.Header().Name
		known, _ := all[name].([]string)
		all[name] = append(known, record.String())
		return err
	}); err != nil {
		return map[string]any{"zone transfer": err.Error()}
	}
	all["zone"] = hex.EncodeToString(hash.Sum(nil))
	for _, q := range c.queries {
		answer, err := c.ask(q)
		if err != nil {
			return map[string]any{"query " + q.name: err.Error()}
		}
		all["answer to "+q.name+" "+dns.TypeToString[q.qtype]] = answer
	}
	return all
}

// transfer transfers the zone, and calls each for every record. It calls each for no record if the
// server has not started.
func (c *client) transfer(each func(dns.RR) error) error {
	to := c.addresses.Load()
	if to == nil {
		return nil
	}
	var t dns.Transfer
	answers, err := t.In(new(dns.Msg).SetAxfr(zone), to.tcp)
	if err != nil {
		return err
	}
	for answer := range answers { // read to the end, because the sender blocks
		if err == nil {
			err = answer.Error
		}
		for _, record := range answer.RR {
			if err == nil {
				err = each(record)
			}
		}
	}
	return err
}

// ask returns the bytes of the server's answer in hexadecimal.
func (c *client) ask(q query) (string, error) {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.Id = 1
	transport := dns.Client{UDPSize: dns.MaxMsgSize}
	answer, _, err := transport.Exchange(m, c.addresses.Load().udp)
	if err != nil {
		return "", err
	}
	for _, record := range slices.Concat(answer.Answer, answer.Ns) {
		withoutSerial(record)
	}
	packed, err := answer.Pack()
	return hex.EncodeToString(packed), err
}

// withoutSerial clears the serial number of a SOA record, which CoreDNS derives from the time of
// the last change.
func withoutSerial(record dns.RR) {
	if soa, ok := record.(*dns.SOA); ok {
		soa.Serial = 0
	}
}
