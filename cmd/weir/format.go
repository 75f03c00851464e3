package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/weirproject/weir/internal/tools/command"
)

// The values of -o without an expression. Without -o, the output is a table.
const (
	outputJSON = "json"
	outputYAML = "yaml"
	outputName = "name"
	outputWide = "wide"
)

// The values of -o that have an expression after "=".
const (
	outputJSONPath      = "jsonpath"
	outputCustomColumns = "custom-columns"
)

// format is the parsed value of -o. A template is parsed again for each object, because a JSONPath
// with a range can be evaluated only once.
type format struct {
	output    string   // one of the constants above, "" for the table
	headers   []string // of -o custom-columns
	templates []string // each parses without error
}

// parseFormat parses the value of -o.
func parseFormat(value string) (*format, error) {
	output, expression, _ := strings.Cut(value, "=")
	switch output {
	case "", outputJSON, outputYAML, outputName, outputWide:
		if value == output {
			return &format{output: output}, nil
		}
	case outputJSONPath, outputCustomColumns:
		if expression == "" {
			return nil, command.Usagef("-o %s needs a value, such as -o %s", value, formatExamples[output])
		}
		f := &format{output: output}
		if err := f.parse(expression); err != nil {
			return nil, command.Usagef("-o %s: %w", value, err)
		}
		return f, nil
	}
	return nil, command.Usagef("-o %s: the output can be json, yaml, name, wide, jsonpath=TEMPLATE or custom-columns=SPEC", value)
}

var formatExamples = map[string]string{
	outputJSONPath:      "jsonpath={.metadata.name}",
	outputCustomColumns: "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
}

func (f *format) parse(expression string) error {
	if f.output == outputJSONPath {
		if !strings.Contains(expression, "{") {
			expression = "{." + strings.TrimPrefix(expression, ".") + "}"
		}
		return f.add(expression)
	}
	for column := range strings.SplitSeq(expression, ",") {
		header, path, ok := strings.Cut(column, ":")
		if !ok || header == "" {
			return fmt.Errorf("%q: want HEADER:PATH", column)
		}
		inner := relaxed.FindStringSubmatch(path)
		if inner == nil {
			return fmt.Errorf("%q: want a path such as .metadata.name", path)
		}
		f.headers = append(f.headers, header)
		if err := f.add("{." + inner[1] + inner[2] + "}"); err != nil {
			return err
		}
	}
	return nil
}

// relaxed matches a path in the forms that kubectl accepts for a column: with or without braces and
// a first dot.
var relaxed = regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`)

// add adds a template. It returns an error if the template does not parse.
func (f *format) add(template string) error {
	f.templates = append(f.templates, template)
	_, err := parsePath(template)
	return err
}

// parsePath parses a template. For a field that an object lacks, the template prints nothing
// instead of returning an error.
func parsePath(template string) (*jsonpath.JSONPath, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	return path, path.Parse(template)
}

// line returns the output of -o jsonpath for an object, with a newline at its end. Like kubectl, it
// keeps unprintable characters, because programs read the output.
func (f *format) line(object map[string]any) ([]byte, error) {
	path, err := parsePath(f.templates[0])
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := path.Execute(&out, object); err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// cells returns the output of -o custom-columns for an object, one line per cell. If the object
// lacks a field, the cell of that field is "<none>".
func (f *format) cells(object map[string]any) ([]string, error) {
	var cells []string
	for _, template := range f.templates {
		path, err := parsePath(template)
		if err != nil {
			return nil, err
		}
		results, err := path.FindResults(object)
		if err != nil {
			return nil, err
		}
		var values []string
		for _, result := range results {
			for _, value := range result {
				values = append(values, command.OneLineText(fmt.Sprint(value.Interface())))
			}
		}
		if values == nil {
			values = []string{"<none>"}
		}
		cells = append(cells, strings.Join(values, ","))
	}
	return cells, nil
}
