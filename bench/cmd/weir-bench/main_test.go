package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/apiserver"
)

// TestMain is the command itself when it runs under the command's name: that is how scripts run it,
// and it its children.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"weir-bench": func() { os.Exit(run()) }})
}

// leakless fails when tests that have passed left a goroutine behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Pods: 40, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
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
