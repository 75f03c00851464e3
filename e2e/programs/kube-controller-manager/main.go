// Command kube-controller-manager is the upstream kube-controller-manager. It also exits when its
// standard input ends.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() {
	report.EndWithInput()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
