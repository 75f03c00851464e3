package programs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
)

// changes are modifications of a program's source files. The text of a file "changes" has these
// kinds of lines, and comments that start with #:
//
//	build PACKAGE       builds this main package, instead of the one in the program's directory.
//	                    Both builds add the directory's file added.go to the package.
//	in PACKAGE FILE     selects the file that the following lines change
//	import PATH         adds an import to the file
//	change A to B       replaces the text A by B everywhere in the file; \n in a text is the end of
//	                    a line and the indentation of the next line, by one tab
//	share A to B        replaces A by B after all changes, if Options.ShareDecoded is tested
type changes struct {
	build string // "" or a package
	files []fileChanges
}

// fileChanges are the changes of one file.
type fileChanges struct {
	importPath, file string
	imports          []string
	replacements     [][2]string
	shares           [][2]string
}

var errSyntax = errors.New("build PACKAGE, in PACKAGE FILE, import PATH, change A to B or share A to B is wanted")

func parseChanges(raw []byte) (out changes, err error) {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := out.parse(line); err != nil {
			return changes{}, fmt.Errorf("line %d: %q: %w", n, line, err)
		}
	}
	if len(out.files) == 0 {
		return changes{}, errors.New("nothing is changed")
	}
	return out, lines.Err()
}

func (c *changes) parse(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "build":
		c.build = rest
		return nil
	case "in":
		words := strings.Fields(rest)
		if len(words) != 2 {
			return errSyntax
		}
		c.files = append(c.files, fileChanges{importPath: words[0], file: words[1]})
		return nil
	}
	if len(c.files) == 0 {
		return errSyntax
	}
	last := &c.files[len(c.files)-1]
	switch verb {
	case "import":
		last.imports = append(last.imports, rest)
	case "change", "share":
		from, to, ok := strings.Cut(rest, " to ")
		if !ok {
			return errSyntax
		}
		lines := strings.NewReplacer(`\n`, "\n\t")
		replacement := [2]string{lines.Replace(strings.TrimSpace(from)), lines.Replace(strings.TrimSpace(to))}
		if verb == "change" {
			last.replacements = append(last.replacements, replacement)
		} else {
			last.shares = append(last.shares, replacement)
		}
	default:
		return errSyntax
	}
	return nil
}

// apply returns a file with its changes. It removes imports that become unused, so that the file
// compiles. It returns an error if the file lacks a text that a change replaces.
func (c fileChanges) apply(source []byte, share bool) ([]byte, error) {
	text := string(source)
	replacements := c.replacements
	if share {
		replacements = slices.Concat(replacements, c.shares)
	}
	for _, r := range replacements {
		if !strings.Contains(text, r[0]) {
			return nil, fmt.Errorf("%s/%s: there is no %q", c.importPath, c.file, r[0])
		}
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	fset := token.NewFileSet()
	original, err := parser.ParseFile(fset, c.file, source, 0)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(fset, c.file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, path := range c.imports {
		astutil.AddImport(fset, file, path)
	}
	for _, spec := range original.Imports {
		name, path := "", strings.Trim(spec.Path.Value, `"`)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if astutil.UsesImport(original, path) && !astutil.UsesImport(file, path) {
			astutil.DeleteNamedImport(fset, file, name, path)
		}
	}
	var b bytes.Buffer
	if err := format.Node(&b, fset, file); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
