package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/weirproject/weir/internal/testing/check"
)

// exceptions are modules that Weir requires although Kubernetes lists them as unwanted.
// CONTRIBUTING.md gives the reasons.
var exceptions = map[string]bool{"github.com/klauspost/compress": true}

// TestUnwantedDependencies checks that no released module directly requires a module on Kubernetes'
// list of unwanted modules, except the modules in exceptions. Indirect requirements are allowed.
func TestUnwantedDependencies(t *testing.T) {
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	download.Dir = "../kube"
	download.Env = append(os.Environ(), "GOWORK=off")
	out, err := download.Output()
	check.NoError(t, err)
	var kubernetes struct{ Dir string }
	check.NoError(t, json.Unmarshal(out, &kubernetes))
	text, err := os.ReadFile(filepath.Join(kubernetes.Dir, "hack/unwanted-dependencies.json"))
	check.NoError(t, err)
	var list struct {
		Spec struct{ UnwantedModules map[string]string }
	}
	check.NoError(t, json.Unmarshal(text, &list))
	found := map[string]bool{}
	for _, dir := range []string{".", "cmd/weir", "controllerruntime", "measure/bench", "measure/doctor", "metrics", "proxy"} {
		path := filepath.Join("../..", dir, "go.mod")
		text, err := os.ReadFile(path)
		check.NoError(t, err)
		mod, err := modfile.Parse(path, text, nil)
		check.NoError(t, err)
		for _, r := range mod.Require {
			reason, unwanted := list.Spec.UnwantedModules[r.Mod.Path]
			if !unwanted || r.Indirect {
				continue
			}
			if found[r.Mod.Path] = true; !exceptions[r.Mod.Path] {
				t.Errorf("%s requires %s, which Kubernetes does not want: %s", path, r.Mod.Path, reason)
			}
		}
	}
	for exception := range exceptions {
		if !found[exception] {
			t.Errorf("%s is no exception: it is not required, or not unwanted", exception)
		}
	}
}
