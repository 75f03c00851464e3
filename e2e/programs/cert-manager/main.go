// Command cert-manager runs the controllers of cert-manager that issue certificates of a CA in the
// cluster. It reports the issued certificates (see package report).
package main

import (
	"context"
	"os"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	"github.com/weirproject/weir/e2e/programs/report"
)

// namespace is the namespace of the Certificates.
const namespace = "certificates"

func main() { report.Main(run) }

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: os.Getenv("KUBECONFIG"),
		Namespace:  namespace,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	var all []controller.Interface
	for _, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	c, err := factory.Build()
	if err != nil {
		return err
	}
	issued := newIssued(c)
	c.SharedInformerFactory.Start(ctx.Done())
	c.KubeSharedInformerFactory.Start(ctx.Done())
	for _, each := range all {
		go func() { report.Check(each.Run(5, ctx)) }()
	}
	return report.Serve(report.Known(issued.all))
}
