package sim

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

var (
	mutantsFlag     = flag.Bool("mutants", false, "apply each of testdata/mutants to a copy of the tree, and see whether the simulation kills it")
	mutantFlag      = flag.String("mutant", "", "with -mutants: only those whose name matches this regular expression")
	mutantSeedsFlag = flag.Int("mutant-seeds", 20000, "with -mutants: how many seeds a mutant has to survive")
)

// TestMutants applies patches to the engine, one at a time. Each patch breaks the engine, and
// TestMutants checks that the simulation then fails. It takes long, so it runs only with the flag
// -mutants.
func TestMutants(t *testing.T) {
	if !*mutantsFlag {
		return
	}
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	wanted, err := regexp.Compile(*mutantFlag)
	if err != nil {
		t.Fatalf("-mutant: %v", err)
	}
	tree := copyTree(t)
	if out, _, killed := tree.simulate(*mutantSeedsFlag); killed {
		t.Fatalf("the tree fails as it is:\n%s", out)
	}
	all, killed := 0, 0
	var table strings.Builder
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		if !wanted.MatchString(name) {
			continue
		}
		all++
		verdict, dead := tree.mutant(t, patch)
		if dead {
			killed++
		} else {
			t.Errorf("%s: %s", name, verdict)
		}
		fmt.Fprintf(&table, "%-40s %s\n", name, verdict)
		fmt.Fprintf(os.Stderr, "%-40s %s\n", name, verdict)
	}
	t.Logf("%d of %d mutants killed\n%s", killed, all, table.String())
}

// TestMutantsApply checks that each patch applies to the current tree, because TestMutants runs
// only occasionally.
func TestMutantsApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	tr := tree{"../../.."}
	for _, patch := range patches {
		if out, err := tr.run("git", "apply", "--check", filepath.Join("internal/testing/sim", patch)); err != nil {
			t.Errorf("%s", out)
		}
	}
}

// tree is a copy of the module, to which tests apply patches.
type tree struct{ dir string }

// copyTree copies the files of the module that git lists.
func copyTree(t *testing.T) tree {
	t.Helper()
	root, err := filepath.Abs("../../..")
	check.NoError(t, err)
	dir := t.TempDir()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	check.NoError(t, err)
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(dir, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, raw, 0o644)
		}
		check.NoError(t, err)
	}
	return tree{dir}
}

// mutant applies a patch, runs the simulation and reverts the patch. killed is true if the
// simulation failed.
func (tr tree) mutant(t *testing.T, patch string) (verdict string, killed bool) {
	t.Helper()
	path, err := filepath.Abs(patch)
	check.NoError(t, err)
	if out, err := tr.run("git", "apply", path); err != nil {
		return "does not apply any more: " + out, false
	}
	defer func() {
		if out, err := tr.run("git", "apply", "-R", path); err != nil {
			t.Fatalf("taking %s back: %s", patch, out)
		}
	}()
	began := time.Now()
	out, why, killed := tr.simulate(*mutantSeedsFlag)
	switch {
	case why == "build":
		return "does not build: " + out, false
	case !killed:
		return fmt.Sprintf("SURVIVED %d seeds", *mutantSeedsFlag), false
	}
	return fmt.Sprintf("killed after %.0f s: %s", time.Since(began).Seconds(), why), true
}

var failedSeed = regexp.MustCompile(`seed \d+: .{0,120}`)

// simulate runs the simulation until a seed fails. killed is true if a seed failed, or if the tree
// does not build. The result why describes the failure.
func (tr tree) simulate(seeds int) (out, why string, killed bool) {
	bin := filepath.Join(tr.dir, "sim.test")
	if out, err := tr.run("go", "test", "-c", "-o", bin, "./internal/testing/sim"); err != nil {
		return out, "build", true
	}
	out, err := tr.run(bin, "-test.run", "^TestSim$", "-test.v", "-test.timeout", "60m", "-first", "-seeds", fmt.Sprint(seeds), "-ignore", *ignoreFlag, "-runner", *runnerFlag)
	if err == nil {
		return out, "", false
	}
	if m := failedSeed.FindString(out); m != "" {
		return out, m, true
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return out, strings.TrimSpace(line), true
		}
	}
	return out, err.Error(), true
}

// run runs a command in the copy.
func (tr tree) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
