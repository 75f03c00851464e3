package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/process"
)

// TestMain is the command itself when it runs under the command's name: that is how scripts run it,
// and it its children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Verb { // a child of a test
		os.Exit(run())
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end under -race
	testscript.Main(m, map[string]func(){"weir-bench": func() { os.Exit(run()) }})
}

func TestScripts(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // after all other cleanups
	server, err := apiserver.New(apiserver.Options{Pods: 40, Seed: 1})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	check.NoError(t, server.Start())
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SERVER", server.URL())
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second to end under -race
			cfg := clientcmdapi.NewConfig()
			cfg.Clusters["shop"] = &clientcmdapi.Cluster{Server: server.URL()}
			cfg.Contexts["shop"] = &clientcmdapi.Context{Cluster: "shop", Namespace: "shop"}
			cfg.CurrentContext = "shop"
			return clientcmd.WriteToFile(*cfg, filepath.Join(e.WorkDir, "kubeconfig"))
		},
		RequireExplicitExec: true,
	})
}
