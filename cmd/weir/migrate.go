package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
)

func newMigrate() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "migrate DIRECTORY...",
		Short: "Rewrite Go source so that a program uses Weir's informers",
		Long: "Migrate replaces client-go's constructors of informers, reflectors and factories by those of Weir's package clientgo,\n" +
			"and sets NewCache in the options of controller-runtime's managers and clusters. If an informer has no factory, it passes\n" +
			"the configs of clients to clientgo.Wrap. It prints a diff to stdout, and to stderr the places that people must change or\n" +
			"check. Without --write, it changes no file. A second run changes nothing.\n\n" +
			"DIRECTORY/... also names the directories below, except vendored packages, testdata and other modules. Migrate reads no\n" +
			"other package, disregards build constraints, and does not change tests, generated files, and calls with a client that is\n" +
			"called fake. The module need not build.",
		Example: "  weir migrate ./...\n" +
			"  weir migrate ./... | git apply\n" +
			"  weir migrate --write ./cmd/... ./pkg/controller",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("which DIRECTORY? For example: %s ./...", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return migrate(cmd, args, write) },
	}
	cmd.Flags().BoolVar(&write, "write", false, "Write the changed files")
	return cmd
}

// migrate prints the changes of the named packages, and writes them if write is true.
func migrate(cmd *cobra.Command, patterns []string, write bool) error {
	m, err := newMigration(patterns)
	if err != nil {
		return err
	}
	changed, imports := map[string][]byte{}, map[string]bool{}
	for _, f := range m.files {
		if len(f.edits) == 0 {
			continue
		}
		if changed[f.path], err = f.changed(); err != nil {
			return err
		}
		if _, err := cmd.OutOrStdout().Write(diff.Diff("a/"+f.path, f.source, "b/"+f.path, changed[f.path])); err != nil {
			return err
		}
		for at := range f.imports {
			imports[at] = true
		}
	}
	p := newPrescription(cmd.ErrOrStderr())
	for _, d := range m.decisions {
		p.paragraph("", fmt.Sprintf("%s:%d: %s", d.at.Filename, d.at.Line, d.text))
	}
	result := "Files to change"
	if write {
		result = "Changed files"
		for path, source := range changed {
			if err := os.WriteFile(path, source, 0o666); err != nil { // the file keeps its mode
				return err
			}
		}
	}
	result += fmt.Sprintf(": %d.", len(changed))
	if len(changed) > 0 && !write {
		result += " To change them, add --write."
	}
	p.paragraph("", result)
	if len(imports) > 0 {
		fmt.Fprintln(p.out, "Their modules need:\n  go get", strings.Join(slices.Sorted(maps.Keys(imports)), " "))
	}
	return nil
}
