package programs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirproject/weir/e2e/cluster"
)

var shareFlag = flag.Bool("programs.share", false, "have the changed programs' objects share what is equal in them: clientgo.Options.ShareDecoded")

// program is a third-party program. name is also its directory.
type program struct {
	name  string
	lines int // number of changed lines; set by build
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
	if _, err := cluster.GoCommand(ctx, p.name, "build", "-trimpath", "-o", plain, "."); err != nil {
		return "", "", err
	}
	modfile, err := p.copies(ctx, list, dir)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", p.name, err)
	}
	_, err = cluster.GoCommand(ctx, p.name, "build", "-trimpath", "-modfile", modfile, "-tags", "changed", "-o", changed, ".")
	return plain, changed, err
}

// copies puts a changed copy of each module that has changes into dir. It returns the path of a
// go.mod that replaces the modules by the copies.
func (p *program) copies(ctx context.Context, list changes, dir string) (modfile string, err error) {
	modfile = filepath.Join(dir, p.name+".mod")
	for from, to := range map[string]string{"go.mod": modfile, "go.sum": filepath.Join(dir, p.name+".sum")} {
		raw, err := os.ReadFile(filepath.Join(p.name, from))
		if err == nil {
			err = os.WriteFile(to, raw, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	copied := map[string]string{}
	for _, c := range list {
		out, err := cluster.GoCommand(ctx, p.name, "list", "-f", "{{.Module.Path}} {{.Module.Dir}} {{.Dir}}", c.importPath)
		if err != nil {
			return "", err
		}
		var module, from, pkg string
		if _, err := fmt.Sscan(out, &module, &from, &pkg); err != nil {
			return "", err
		}
		to, ok := copied[module]
		if !ok {
			to = filepath.Join(dir, fmt.Sprintf("%s-%d", p.name, len(copied)))
			copied[module] = to
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				return "", err
			}
			if _, err := cluster.GoCommand(ctx, p.name, "mod", "edit", "-replace", module+"="+to, modfile); err != nil {
				return "", err
			}
		}
		path := filepath.Join(to, strings.TrimPrefix(pkg, from), c.file)
		source, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		changed, lines, err := c.apply(source, *shareFlag)
		if err != nil {
			return "", err
		}
		p.lines += lines
		if err := os.Remove(path); err != nil { // copied files of the module cache are read-only
			return "", err
		}
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			return "", err
		}
	}
	return modfile, nil
}
