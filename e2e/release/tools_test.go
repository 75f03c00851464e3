package release

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestAPIDiff removes a name after a release. Until CHANGELOG.md mentions the name, scripts/apidiff
// must report the name. It must not report packages without changes.
func TestAPIDiff(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, ".", nil, "git", "clone", "-q", "--no-tags", topLevel(t), clone)
	if out := run(t, clone, nil, "scripts/apidiff"); !strings.Contains(out, "no release yet") {
		t.Errorf("without a release: %s", out)
	}
	identity := []string{"GIT_AUTHOR_NAME=r", "GIT_AUTHOR_EMAIL=r@example.com", "GIT_COMMITTER_NAME=r", "GIT_COMMITTER_EMAIL=r@example.com"}
	run(t, clone, identity, "scripts/release", "--unsigned", version)
	diff := func(packages ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "scripts/apidiff", packages...)
		cmd.Dir = clone
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	replace(t, filepath.Join(clone, "errors.go"), "\tErrNoContact ", "\tErrQuiet ")
	out, err := diff(".", "./internal/core/resourceversion")
	if err == nil || !strings.Contains(out, "  "+root+": ErrNoContact\n") || strings.Contains(out, "  "+root+"/internal/core/resourceversion:") {
		t.Errorf("an incompatible change: %v\n%s", err, out)
	}
	replace(t, filepath.Join(clone, "CHANGELOG.md"), "# Changelog\n",
		"# Changelog\n\n## Next\n\n### Incompatible changes\n\n- `ErrNoContact` is gone.\n")
	if out, err := diff("."); err != nil {
		t.Errorf("CHANGELOG.md has it: %v\n%s", err, out)
	}
}

// TestImage creates an image and a bill of materials of a small program, and runs the image's
// program. With -release.build, it also builds the images of the released programs with make. It
// then checks these images, the bills of materials, the krew manifest and the chart.
func TestImage(t *testing.T) {
	top, dir := topLevel(t), t.TempDir()
	program, platform := filepath.Join(dir, "sbom"), "linux/"+runtime.GOARCH
	env := []string{"GOWORK=off", "CGO_ENABLED=0", "GOOS=linux"}
	run(t, filepath.Join(top, "tools"), env, "go", "build", "-o", program, "./sbom")
	run(t, filepath.Join(top, "tools"), env[:1], "go", "tool", "sbom", "-version", version, program)
	checkBill(t, program+".cdx.json", "sbom", "pkg:golang/github.com/CycloneDX/cyclonedx-go@")
	images := t.TempDir()
	other := filepath.Join(dir, "other")
	check.NoError(t, os.Link(program, other))
	image := []string{"tool", "image", "-version", version, "-o", images, platform + "=" + program + "," + other}
	first := run(t, filepath.Join(top, "tools"), env[:1], "go", image...)
	if second := run(t, filepath.Join(top, "tools"), env[:1], "go", image...); first != second {
		t.Errorf("the same program makes two images: %s and %s", first, second)
	}
	if out := runImage(t, images, "sbom", "other"); !strings.Contains(out, "-version") {
		t.Errorf("its image says %s", out)
	}
	if !*build {
		return
	}
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, ".", nil, "git", "clone", "-q", top, clone)
	run(t, clone, nil, "make", "release", "image", "PLATFORMS="+platform, "IMAGEPLATFORMS="+platform, "VERSION="+version)
	checkKrew(t, filepath.Join(clone, "dist"))
	checkChart(t, filepath.Join(clone, "dist"))
	for _, name := range []string{"weir", "weir-serve", "weir-proxy", "weir-bench"} {
		file := name + "_" + version + "_linux_" + runtime.GOARCH + ".cdx.json"
		checkBill(t, filepath.Join(clone, "dist", file), name, "pkg:golang/k8s.io/client-go@")
	}
	for name, beside := range map[string][]string{"weir": {"weir-serve"}, "weir-proxy": nil} {
		if out := runImage(t, filepath.Join(clone, "dist", "images"), name, beside...); !strings.Contains(out, "Usage:") {
			t.Errorf("the image of %s says %s", name, out)
		}
	}
}

// checkBill checks that a bill of materials describes the program with this name and version. It
// must contain a module whose package URL starts with purl, and a checksum of this module.
func checkBill(t *testing.T, file, name, purl string) {
	t.Helper()
	type component struct {
		Name, Version, PURL string
		Hashes              []struct{ Alg, Content string }
	}
	var bill struct {
		BOMFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &bill)
	}
	check.NoError(t, err)
	if of := bill.Metadata.Component; bill.BOMFormat != "CycloneDX" || of.Name != name || of.Version != version {
		t.Errorf("%s is %s of %+v", file, bill.BOMFormat, of)
	}
	found := slices.ContainsFunc(bill.Components, func(c component) bool {
		return strings.HasPrefix(c.PURL, purl) && len(c.Hashes) == 1 && len(c.Hashes[0].Content) == 64
	})
	if !found {
		t.Errorf("%s has no %s, in\n%s", file, purl, text)
	}
}

// runImage unpacks an image as docker load does, and runs its program with --help. It returns the
// output. The image must contain this program and the programs in the parameter beside, and no
// other file.
func runImage(t *testing.T, dir, name string, beside ...string) string {
	t.Helper()
	unpacked := t.TempDir()
	unpack(t, filepath.Join(dir, name+"_linux_"+runtime.GOARCH+".tar"), unpacked, false)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	readJSON(t, filepath.Join(unpacked, "manifest.json"), &manifest)
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 || !slices.Equal(manifest[0].RepoTags, []string{name + ":" + version}) {
		t.Fatalf("the manifest of %s: %+v", name, manifest)
	}
	var config struct {
		OS, Architecture string
		Config           struct {
			Entrypoint []string
			User       string
		}
	}
	readJSON(t, filepath.Join(unpacked, manifest[0].Config), &config)
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" {
		t.Errorf("the config of %s: %+v", name, config)
	}
	files := t.TempDir()
	unpack(t, filepath.Join(unpacked, manifest[0].Layers[0]), files, true)
	has, err := os.ReadDir(files)
	check.NoError(t, err)
	for _, file := range has {
		if !slices.Contains(append(beside, name), file.Name()) {
			t.Errorf("the image of %s has %s", name, file.Name())
		}
	}
	if len(has) != 1+len(beside) {
		t.Errorf("the image of %s has %d files, want it and %q", name, len(has), beside)
	}
	if len(config.Config.Entrypoint) != 1 {
		t.Fatalf("the entrypoint of %s: %q", name, config.Config.Entrypoint)
	}
	out, _ := exec.CommandContext(t.Context(), filepath.Join(files, config.Config.Entrypoint[0]), "--help").CombinedOutput()
	return string(out)
}

func unpack(t *testing.T, archive, dir string, zipped bool) {
	t.Helper()
	f, err := os.Open(archive)
	check.NoError(t, err)
	defer f.Close()
	var from io.Reader = f
	if zipped {
		if from, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return
		}
		check.NoError(t, err)
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, header.Name), data, header.FileInfo().Mode().Perm())
		}
		check.NoError(t, err)
	}
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	check.NoError(t, err)
}

// replace replaces a text in a file. The file must contain the text.
func replace(t *testing.T, file, old, with string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.NoError(t, err)
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not have %q", file, old)
	}
	check.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, with)), 0o600))
}
