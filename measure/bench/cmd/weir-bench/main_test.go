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

// TestMain runs the tests. It runs the command instead if scripts run the test binary under the
// command's name, or if this process is a child of a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Verb { // a child of a test
		os.Exit(run())
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each child under -race ends a second later
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
			e.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each command under -race ends a second later
			cfg := clientcmdapi.NewConfig()
			cfg.Clusters["shop"] = &clientcmdapi.Cluster{Server: server.URL()}
			cfg.Contexts["shop"] = &clientcmdapi.Context{Cluster: "shop", Namespace: "shop"}
			cfg.CurrentContext = "shop"
			return clientcmd.WriteToFile(*cfg, filepath.Join(e.WorkDir, "kubeconfig"))
		},
		RequireExplicitExec: true,
	})
}
