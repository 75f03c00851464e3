// Command kube-scheduler is the upstream kube-scheduler. It also exits when its standard input
// ends.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() {
	report.EndWithInput()
	os.Exit(cli.Run(app.NewSchedulerCommand()))
}
