package weir_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// documentsPrelude is the start of a Go file. It imports packages and declares variables that code
// in documents uses.
const documentsPrelude = `package documents

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	versioned "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/metrics"
)

var (
	cfg      *rest.Config
	client   kubernetes.Interface
	ctx      context.Context
	gvr      schema.GroupVersionResource
	indexers toolscache.Indexers
	lw       toolscache.ListerWatcher
	mux      *http.ServeMux
	ns       string
	queue    workqueue.TypedInterface[string]
	resync   time.Duration
	scheme   *runtime.Scheme

	dynamicClient dynamic.Interface

	shop generatedGroup
)

// generatedGroup has what informer-gen makes of the group of some custom resources.
type generatedGroup struct{}

func (g generatedGroup) New(internalinterfaces.SharedInformerFactory, string, internalinterfaces.TweakListOptionsFunc) generatedGroup {
	return g
}
func (g generatedGroup) V1() generatedGroup      { return g }
func (g generatedGroup) Widgets() generatedGroup { return g }
`

// TestDocumentsCompile checks that the Go code in documents, and in the comments of the public
// packages, compiles after documentsPrelude.
//
//   - "…" in the code replaces code that is left out.
//   - Of a diff, the test compiles the new version.
//   - Below a comment "// package NAME", the document declares functions of that package without
//     bodies. The test compares them with the package's functions.
func TestDocumentsCompile(t *testing.T) {
	blocks := append(markdownCode(t), commentCode(t)...)
	if len(blocks) < 10 {
		t.Errorf("the documents have only %d blocks of code", len(blocks))
	}
	c := newDocumentChecker(t)
	for _, b := range blocks {
		if packageHeading.MatchString(b.text) {
			c.checkDeclarations(b)
		} else {
			c.check(b.source(), b)
		}
	}
}

// codeBlock is a block of Go code in a document.
type codeBlock struct {
	file string
	line int // number of the first line
	text string
}

// markdownCode returns the Go and diff blocks of all documents.
func markdownCode(t *testing.T) (blocks []codeBlock) {
	t.Helper()
	for file, text := range repository(t, `\.md$`) {
		var b *codeBlock // nil outside the blocks of Go code and the diffs
		n := 0
		for line := range strings.Lines(text) {
			n++
			switch fence, _ := strings.CutPrefix(line, "```"); {
			case fence == "go\n" || fence == "diff\n":
				b = &codeBlock{file: file, line: n + 1}
			case b != nil && line == "```\n":
				blocks, b = append(blocks, *b), nil
			case b != nil:
				b.text += line
			}
		}
	}
	return blocks
}

// columns matches a line of a preformatted table: at least three spaces separate its columns.
var columns = regexp.MustCompile(`\S {3,}\S`)

// commentCode returns the blocks of code in the comments of the public packages, without tables.
func commentCode(t *testing.T) (blocks []codeBlock) {
	t.Helper()
	for file, text := range repository(t, `^([^/]+|(apiserver|clientgo|controllerruntime|debug|informertest|metrics|proxy)/[^/]+)\.go$`) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
		check.NoError(t, err)
		for _, said := range exportedComments(parsed) {
			for _, block := range new(comment.Parser).Parse(said).Content {
				if code, ok := block.(*comment.Code); ok && !columns.MatchString(code.Text) {
					first, _, _ := strings.Cut(code.Text, "\n")
					before, _, _ := strings.Cut(text, "//\t"+first+"\n")
					blocks = append(blocks, codeBlock{file, 1 + strings.Count(before, "\n"), code.Text})
				}
			}
		}
	}
	return blocks
}

// exportedComments returns the package comment of a file, and the comments of its declarations that
// are exported.
func exportedComments(file *ast.File) []string {
	comments := []string{file.Doc.Text()}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				comments = append(comments, d.Doc.Text())
			}
		case *ast.GenDecl:
			comments = append(comments, d.Doc.Text())
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						comments = append(comments, s.Doc.Text())
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						comments = append(comments, s.Doc.Text())
					}
				}
			}
		}
	}
	return comments
}

// code returns the block as Go code with unchanged line numbers. For a diff it returns the new
// version.
func (b codeBlock) code() string {
	text := strings.ReplaceAll(b.text, "…", `panic("left out")`)
	if !regexp.MustCompile(`(?m)^\+`).MatchString(text) {
		return text
	}
	var after strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-") {
			line = "\n"
		}
		after.WriteString(strings.TrimLeft(line[:1], "+ ") + line[1:])
	}
	return after.String()
}

// source returns a Go file that contains the block: at top level if the block starts with a
// function, otherwise in a function body.
func (b codeBlock) source() string {
	at := fmt.Sprintf("//line %s:%d\n", b.file, b.line)
	if strings.HasPrefix(b.text, "func ") {
		return documentsPrelude + at + b.code()
	}
	return documentsPrelude + "func _() error {\n" + at + b.code() + "\npanic(\"end\")\n}\n"
}

// packageHeading matches the line that names the package of the declarations below the line.
var packageHeading = regexp.MustCompile(`(?m)^// package (\w+)$`)

// documentChecker type-checks the code in documents.
type documentChecker struct {
	t       *testing.T
	fset    *token.FileSet
	imports types.Importer
	paths   map[string]string // import paths of the packages that the prelude imports, by local name
}

// newDocumentChecker loads the compiler's export data for the packages that the prelude imports.
func newDocumentChecker(t *testing.T) *documentChecker {
	t.Helper()
	c := &documentChecker{t: t, fset: token.NewFileSet(), paths: map[string]string{}}
	prelude, err := parser.ParseFile(c.fset, "", documentsPrelude, parser.ImportsOnly)
	check.NoError(t, err)
	args := []string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, spec := range prelude.Imports {
		of := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(of)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		c.paths[name] = of
		args = append(args, of)
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Env, list.Stderr = append(os.Environ(), "GOFLAGS=-mod=readonly"), os.Stderr
	out, err := list.Output()
	check.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		of, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[of] = file
	}
	c.imports = importer.ForCompiler(c.fset, "gc", func(of string) (io.ReadCloser, error) { return os.Open(files[of]) })
	return c
}

// check type-checks a file that contains block b, and reports errors to the test. It ignores unused
// variables and imports.
func (c *documentChecker) check(source string, b codeBlock) *types.Package {
	c.t.Helper()
	file, err := parser.ParseFile(c.fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		c.t.Errorf("%s: the code cannot be parsed: %v", b.file, err)
		return types.NewPackage("", "")
	}
	config := types.Config{Importer: c.imports, Error: func(err error) {
		if !strings.Contains(err.Error(), "and not used") { // an unused variable or import
			c.t.Error(err)
		}
	}}
	checked, _ := config.Check("documents", c.fset, []*ast.File{file}, nil) // Error reports errors
	return checked
}

// checkDeclarations checks the functions that block b declares. Each of them must exist in the
// package that its heading names, with the same signature.
func (c *documentChecker) checkDeclarations(b codeBlock) {
	c.t.Helper()
	headings := packageHeading.FindAllStringSubmatchIndex(b.text, -1)
	for i, at := range headings {
		name, text := b.text[at[2]:at[3]], b.text[at[1]:]
		if i+1 < len(headings) {
			text = b.text[at[1]:headings[i+1][0]]
		}
		of, err := c.imports.Import(c.paths[name])
		if err != nil {
			c.t.Errorf("%s: package %s: %v", b.file, name, err)
			continue
		}
		source := documentsPrelude
		for _, own := range of.Scope().Names() { // the document does not qualify these types
			if _, ok := of.Scope().Lookup(own).(*types.TypeName); ok && ast.IsExported(own) && regexp.MustCompile(`\b`+own+`\b`).MatchString(text) {
				source += fmt.Sprintf("type %s = %s.%[1]s\n", own, name)
			}
		}
		source += fmt.Sprintf("//line %s:%d\n", b.file, b.line+strings.Count(b.text[:at[1]], "\n")) + text
		says := c.check(source, b).Scope()
		for _, function := range says.Names() {
			said, ok := says.Lookup(function).(*types.Func)
			if !ok {
				continue
			}
			if has := of.Scope().Lookup(function); has == nil || !types.Identical(said.Type(), has.Type()) {
				c.t.Errorf("%s has %v, and the package %v", b.file, said, has)
			}
		}
	}
}
