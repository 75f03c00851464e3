package programs

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/weirproject/weir/e2e/cluster"
)

var shareFlag = flag.Bool("programs.share", false, "have the changed programs' objects share what is equal in them: clientgo.Options.ShareDecoded")

// program is a third-party program. name is also its directory. build sets the other fields: how
// many statements, imports and requirements in go.mod differ in the changed program.
type program struct {
	name                           string
	statements, imports, goModules int
}

// build builds a program twice in dir: unchanged and changed. It returns the paths of both
// binaries.
func (p *program) build(ctx context.Context, dir string) (plain, changed string, err error) {
	raw, err := os.ReadFile(filepath.Join(p.name, "changes"))
	if err != nil {
		return "", "", err
	}
	list, err := parseChanges(raw)
	if err != nil {
		return "", "", fmt.Errorf("%s/changes: %w", p.name, err)
	}
	plain, changed = filepath.Join(dir, p.name), filepath.Join(dir, p.name+"-changed")
	if err := p.compile(ctx, list.build, nil, plain); err != nil {
		return "", "", err
	}
	*p = program{name: p.name} // copies for the unchanged program count nothing
	return plain, changed, p.compile(ctx, list.build, list.files, changed, "-tags", "changed")
}

// compile builds the package pkg, or the program's directory if pkg is empty, with changed files.
func (p *program) compile(ctx context.Context, pkg string, files []fileChanges, out string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-o", out}, flags...)
	if pkg == "" && files == nil {
		_, err := cluster.GoCommand(ctx, p.name, append(args, ".")...)
		return err
	}
	c := copies{program: p, modfile: out + ".mod", modules: map[string]string{}}
	err := c.start()
	for _, f := range files {
		if err == nil {
			err = c.change(ctx, f)
		}
	}
	if err == nil && pkg != "" {
		err = c.addTo(ctx, pkg)
	}
	if err == nil {
		_, err = cluster.GoCommand(ctx, p.name, append(args, "-modfile", c.modfile, cmp.Or(pkg, "."))...)
	}
	return err
}

// copies are copies of modules. modfile is the path of a go.mod that replaces the modules by their
// copies. The copies are next to it.
type copies struct {
	*program
	modfile string
	modules map[string]string // directory of each copied module, by its path
}

// start writes the program's go.mod and go.sum to modfile.
func (c *copies) start() error {
	for from, to := range map[string]string{"go.mod": c.modfile, "go.sum": strings.TrimSuffix(c.modfile, ".mod") + ".sum"} {
		raw, err := os.ReadFile(filepath.Join(c.name, from))
		if err == nil {
			err = os.WriteFile(to, raw, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dirOf returns the directory of a package in the copy of its module. If the module has no copy
// yet, dirOf copies it.
func (c *copies) dirOf(ctx context.Context, importPath string) (string, error) {
	out, err := cluster.GoCommand(ctx, c.name, "list", "-f", "{{.Module.Path}} {{.Module.Dir}} {{.Module.GoMod}} {{.Dir}}", importPath)
	if err != nil {
		return "", err
	}
	var module, from, goMod, pkg string
	if _, err := fmt.Sscan(out, &module, &from, &goMod, &pkg); err != nil {
		return "", err
	}
	to, ok := c.modules[module]
	if !ok {
		to = fmt.Sprintf("%s-%d", c.modfile, len(c.modules))
		c.modules[module] = to
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return "", err
		}
		if _, err := cluster.GoCommand(ctx, c.name, "mod", "edit", "-replace", module+"="+to, c.modfile); err != nil {
			return "", err
		}
		raised, err := c.raised(goMod)
		if err != nil {
			return "", err
		}
		c.goModules += raised
	}
	return filepath.Join(to, strings.TrimPrefix(pkg, from)), nil
}

// raised returns the number of requirements that a module must change to use Weir: Weir itself, and
// the direct requirements of which the program's go.mod has a higher version.
func (c *copies) raised(goMod string) (int, error) {
	theirs, err := requirements(goMod)
	if err != nil {
		return 0, err
	}
	ours, err := requirements(c.modfile)
	if err != nil {
		return 0, err
	}
	selected := map[string]string{}
	for _, r := range ours {
		selected[r.Mod.Path] = r.Mod.Version
	}
	n := 1
	for _, r := range theirs {
		if !r.Indirect && semver.Compare(selected[r.Mod.Path], r.Mod.Version) > 0 {
			n++
		}
	}
	return n, nil
}

func requirements(goMod string) ([]*modfile.Require, error) {
	raw, err := os.ReadFile(goMod)
	if err != nil {
		return nil, err
	}
	module, err := modfile.ParseLax(goMod, raw, nil)
	if err != nil {
		return nil, err
	}
	return module.Require, nil
}

// change changes a file in the copy of its module.
func (c *copies) change(ctx context.Context, f fileChanges) error {
	dir, err := c.dirOf(ctx, f.importPath)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, f.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := f.apply(source, *shareFlag)
	if err != nil {
		return err
	}
	statements, imports, err := countChanges(source, changed)
	if err != nil {
		return err
	}
	c.statements, c.imports = c.statements+statements, c.imports+imports
	if err := os.Remove(path); err != nil { // copied files of the module cache are read-only
		return err
	}
	return os.WriteFile(path, changed, 0o644)
}

// addTo adds the file added.go in the program's directory to a package.
func (c *copies) addTo(ctx context.Context, importPath string) error {
	dir, err := c.dirOf(ctx, importPath)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(c.name, "added.go"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "added.go"), raw, 0o644)
}
