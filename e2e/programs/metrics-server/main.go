// Command metrics-server runs metrics-server. It reports the answers of metrics-server's API for
// all pods and nodes (see package report).
package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

func run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	opts := options.NewOptions()
	opts.Kubeconfig, opts.DisableAuthForTesting, opts.MetricResolution = os.Getenv("KUBECONFIG"), true, 2*time.Second
	opts.SecureServing.Listener, opts.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	opts.SecureServing.ServerCert.CertDirectory = "" // keep the certificate in memory
	opts.KubeletClient.KubeletUseNodeStatusPort, opts.KubeletClient.DeprecatedCompletelyInsecureKubelet = true, true
	config, err := opts.ServerConfig()
	if err != nil {
		return err
	}
	server, err := config.Complete()
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { report.Check(server.RunUntil(stop)) }()
	api := api{base: "https://" + listener.Addr().String() + "/apis/metrics.k8s.io/v1beta1/", client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
	}}}
	return report.Serve(report.Known(api.all))
}
