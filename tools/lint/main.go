// Command lint runs the analyzers of go vet and of staticcheck on the packages in its arguments. It
// accepts staticcheck's flags.
//
// The analyzers need facts about all imported packages, which include hundreds of Kubernetes'
// packages. This program loads these packages once for all analyzers. It skips three analyses of
// functions in other modules: whether a function has no effect, whether it never returns nil, and
// whether it takes pairs of arguments. These analyses would take two thirds of the time. make
// staticcheck runs the full staticcheck.
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

// ofFunctions are the analyzers that compute facts about functions, and buildir, which they need.
// buildir converts all functions into static single assignment form.
var ofFunctions = map[string]bool{"buildir": true, "nilness": true, "fact_purity": true, "SA5012": true}

// spareOthers changes an analyzer, and the analyzers that it requires. Those in ofFunctions then
// skip packages of other modules. They still analyze the standard library, which is small.
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
