// Command lint runs go vet's analyzers and staticcheck's on the packages that its arguments name.
// It takes staticcheck's flags.
//
// Both need facts of all packages that are imported, hundreds of Kubernetes' among them. One
// program parses and type-checks these once, and finds out less about those of others than
// staticcheck: not which of their functions have no effect, never return nil, or take pairs of
// arguments. That takes two thirds of its time. make staticcheck runs it as it is.
package main

import (
	"os"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	command := lintcmd.NewCommand("lint")
	command.ParseFlags(os.Args[1:])
	for _, a := range vet.Suite {
		command.AddAnalyzers(&lint.Analyzer{Analyzer: a, Doc: &lint.RawDocumentation{Title: a.Doc}})
	}
	seen := map[*analysis.Analyzer]bool{}
	for _, of := range [][]*lint.Analyzer{simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers, {unused.Analyzer}} {
		command.AddAnalyzers(of...)
		for _, a := range of {
			spareOthers(a.Analyzer, seen)
		}
	}
	command.Run()
}

// ofFunctions are the analyzers that find out about functions what others use, and what these need:
// all functions in static single assignment form.
var ofFunctions = map[string]bool{"buildir": true, "nilness": true, "fact_purity": true, "SA5012": true}

// spareOthers keeps an analyzer, and what it requires, from finding out about functions of modules
// that are not this repository's. The standard library is small, and is not spared.
func spareOthers(a *analysis.Analyzer, seen map[*analysis.Analyzer]bool) {
	if seen[a] {
		return
	}
	seen[a] = true
	for _, required := range a.Requires {
		spareOthers(required, seen)
	}
	if !ofFunctions[a.Name] {
		return
	}
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		switch {
		case !ofOthers(pass.Pkg.Path()):
			return run(pass)
		case a.ResultType == nil:
			return nil, nil
		default:
			return reflect.Zero(a.ResultType).Interface(), nil
		}
	}
}

func ofOthers(path string) bool {
	host, _, _ := strings.Cut(path, "/")
	return strings.Contains(host, ".") && !strings.HasPrefix(path, "github.com/weirproject/")
}
