// Command lint runs go vet's analyzers and staticcheck's on the packages in its arguments. It
// accepts staticcheck's flags.
//
// Both need facts about all imported packages, including hundreds of Kubernetes'. This program
// parses and type-checks these once, and analyzes foreign packages less than staticcheck: not which
// of their functions have no effect, never return nil, or take pairs of arguments. That would take
// two thirds of its time. make staticcheck runs the full staticcheck.
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

// ofFunctions are the analyzers that compute facts about functions, and the one that they need: it
// builds all functions in static single assignment form.
var ofFunctions = map[string]bool{"buildir": true, "nilness": true, "fact_purity": true, "SA5012": true}

// spareOthers keeps an analyzer, and those that it requires, from analyzing functions of other
// modules. The standard library is small, and is analyzed.
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
