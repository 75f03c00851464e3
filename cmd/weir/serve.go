package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

func newServe() *cobra.Command {
	var o process.ServerSpec
	var resources []string
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an embedded API server with simulated pods",
		Long: "Serve runs a small Kubernetes API server until it is interrupted. The server answers discovery, LIST, WATCH, GET,\n" +
			"create, update, patch and delete over HTTP on loopback. It starts with simulated pods, some of which change\n" +
			"continuously. It requires no credentials, and stores no objects on disk. It prints its address on stdout.\n\n" +
			"With --write-kubeconfig or a certificate, it serves TLS. A new CA issues a certificate for this machine, for 30 days;\n" +
			"the kubeconfig contains the CA's certificate and a token. Without them, it serves plain HTTP.\n\n" +
			"The server offers /metrics and an audit log like kube-apiserver, which weir doctor can analyse. It renames a log of\n" +
			"100 MiB to FILE.1, so that the log uses at most 200 MiB.",
		Example: "  weir serve --pods 5000 --churn 50\n" +
			"  weir serve --population unlike\n" +
			"  weir serve --write-kubeconfig demo.kubeconfig --audit-log audit.log\n" +
			"  weir serve --resource widgets.v1.example.com=Widget",
		Args: command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Pods < 0 || o.Churn < 0 {
				return command.Usagef("--pods and --churn cannot be negative")
			}
			if err := podsim.CheckPopulation(o.Population); err != nil {
				return command.Usagef("--population: %v", err)
			}
			for _, r := range resources {
				parsed, err := parseResource(r)
				if err != nil {
					return err
				}
				o.Resources = append(o.Resources, parsed)
			}
			if (o.CertFile == "") != (o.KeyFile == "") {
				return command.Usagef("--tls-cert-file and --tls-private-key-file need each other")
			}
			o.TLS = kubeconfig != "" || o.CertFile != ""
			return serve(cmd, o, kubeconfig)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Pods, "pods", 10_000, "Number of simulated pods")
	fs.StringVar(&o.Population, "population", podsim.Alike, "Objects of the server: "+podsim.PopulationChoices())
	fs.Float64Var((*float64)(&o.Churn), "churn", demoChurn, "Number of changes per second")
	fs.Uint64Var(&o.Seed, "seed", 1, "Seed from which the pods and their changes are drawn")
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:0", "Address to listen on; port 0 selects a free port")
	fs.StringVar(&kubeconfig, "write-kubeconfig", "", "Serve TLS, and write a kubeconfig for the server to this file, which it replaces")
	fs.StringVar(&o.CertFile, "tls-cert-file", "", "Serve TLS with the certificate in this file, followed by those of its CAs")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", "", "File with the key of the certificate")
	fs.StringVar(&o.AuditLog, "audit-log", "", "Append an audit.k8s.io/v1 event of each request to this file")
	fs.StringArrayVar(&resources, "resource", nil,
		"An additional custom resource: plural.version.group=Kind, or plural.version.group=Kind/cluster for a cluster-scoped one")
	return cmd
}

// serve runs the server until it ends. If kubeconfig is not empty, serve writes a kubeconfig to
// that file.
func serve(cmd *cobra.Command, spec process.ServerSpec, kubeconfig string) error {
	ctx := cmd.Context()
	server, err := startEmbedded(ctx, cmd.ErrOrStderr(), spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted before the server was ready
		}
		return command.Listen("listen", spec.Listen, err)
	}
	defer server.Close()
	where := "-s " + server.URL
	if kubeconfig != "" {
		if err := server.writeKubeconfig(kubeconfig); err != nil {
			return err
		}
		where = "--kubeconfig " + kubeconfig
	}
	fmt.Fprintln(cmd.OutOrStdout(), server.URL)
	fmt.Fprintf(cmd.ErrOrStderr(), "serving %s pods, %v changes per second; try: kubectl %s get pods -A, or %s watch pods -A %[3]s\n",
		humanize.Count(int64(spec.Pods)), spec.Churn, where, cmd.Root().CommandPath())
	if err := server.Wait(); ctx.Err() == nil {
		return err // the server ended without an interrupt
	}
	return server.Close()
}

// parseResource parses plural.version.group=Kind. A "/cluster" at the end means that the resource
// has no namespaces.
func parseResource(s string) (process.Resource, error) {
	name, kind, ok := strings.Cut(s, "=")
	kind, where, _ := strings.Cut(kind, "/")
	gvr, _ := schema.ParseResourceArg(name)
	if !ok || kind == "" || gvr == nil || gvr.Group == "" || where != "" && where != "cluster" {
		return process.Resource{}, command.Usagef("--resource %s: want plural.version.group=Kind, or plural.version.group=Kind/cluster", s)
	}
	return process.Resource{GroupVersionResource: *gvr, Kind: kind, Namespaced: where == ""}, nil
}
