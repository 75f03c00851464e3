// Command descheduler runs the descheduler with a policy once per second. It reports the pods that
// the last run selected for eviction (see package report). The evictions are dry runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/descheduler/cmd/descheduler/app/options"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/descheduler/client"
	eutils "sigs.k8s.io/descheduler/pkg/descheduler/evictions/utils"
	"sigs.k8s.io/descheduler/pkg/features"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"

	"github.com/weirproject/weir/e2e/programs/report"
)

var policyFlag = flag.String("policy", "", "the file of the policy")

func main() { report.Main(run) }

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var l log
	klog.SetLogger(l.logger())
	var verbosity klog.Level
	if err := verbosity.Set("1"); err != nil {
		return err
	}

	rs, err := options.NewDeschedulerServer()
	if err != nil {
		return err
	}
	rs.ClientConnection.Kubeconfig, rs.ClientConnection.QPS = os.Getenv("KUBECONFIG"), -1
	rs.PolicyConfigFile, rs.DeschedulingInterval = *policyFlag, time.Second
	rs.DefaultFeatureGates = features.DefaultMutableFeatureGate
	real, err := client.CreateClient(rs.ClientConnection, "descheduler")
	if err != nil {
		return err
	}
	rs.Client = dryClient{real}
	descheduler.SetupPlugins()
	policy, err := descheduler.LoadPolicyConfig(rs.PolicyConfigFile, rs.Client, pluginregistry.PluginRegistry)
	if err != nil {
		return err
	}
	version, err := eutils.SupportEviction(rs.Client)
	if err != nil {
		return err
	}
	go func() {
		err := descheduler.RunDeschedulerStrategies(ctx, rs, policy, version)
		if ctx.Err() == nil {
			report.Check(cmp.Or(err, errors.New("the descheduler has ended")))
		}
	}()
	return report.Serve(report.Known(l.last))
}
