package weir_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	codeFence = regexp.MustCompile("(?ms)^\\s*```\\w*\n(.*?)^\\s*```")
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	weirCall  = regexp.MustCompile(`^(?:\S+ \| )?(?:go run \./cmd/weir|kubectl weir|weir) ([^|>]*)`)
	longFlag  = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestDocumentCommands checks that the commands in documents exist, with their flags: a call of
// weir names a command that has a page in docs/commands, and the page lists the flags of the call.
func TestDocumentCommands(t *testing.T) {
	calls := 0
	for file, text := range repository(t, `\.md$`) {
		if strings.HasPrefix(file, "docs/commands/") {
			continue
		}
		for _, call := range weirCalls(text) {
			calls++
			page, ok := commandPage(t, call)
			if !ok {
				t.Errorf("%s: weir %s: there is no such command", file, call)
				continue
			}
			for _, flag := range longFlag.FindAllStringSubmatch(call, -1) {
				if !regexp.MustCompile(`(?m)^ +(?:-\w, )?` + flag[1] + `(?: |$)`).MatchString(page) {
					t.Errorf("%s: weir %s: the command has no flag %s", file, call, flag[1])
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("found only %d calls", calls)
	}
}

// weirCalls returns the arguments of each call of weir in a document: in a line of a block of code,
// or in a code span.
func weirCalls(text string) (calls []string) {
	var code []string
	for _, block := range codeFence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			code = append(code, strings.TrimSpace(line))
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(codeFence.ReplaceAllString(text, ""), -1) {
		code = append(code, strings.Join(strings.Fields(span[1]), " "))
	}
	for _, line := range code {
		if call := weirCall.FindStringSubmatch(line); call != nil {
			calls = append(calls, strings.TrimSpace(call[1]))
		}
	}
	return calls
}

// commandPage returns the pages in docs/commands of the command that a call names, and of its
// parents, whose flags it may have too. It reports whether the command exists.
func commandPage(t *testing.T, call string) (pages string, ok bool) {
	all := repository(t, `^docs/commands/.*\.md$`)
	name := "docs/commands/weir"
	for _, word := range strings.Fields(call) {
		page, is := all[name+"-"+word+".md"]
		if !is {
			break
		}
		name += "-" + word
		pages += page
	}
	return pages, pages != "" || strings.HasPrefix(call, "--") || strings.HasPrefix(call, "completion ")
}

// TestDocumentExamples checks that each public package has examples, and that each example has an
// output, so that go test runs it.
func TestDocumentExamples(t *testing.T) {
	example := regexp.MustCompile(`(?ms)^func Example\w*\(\) \{\n.*?^\}`)
	output := regexp.MustCompile(`(?m)^\t// (Unordered o|O)utput:`)
	for _, dir := range []string{"", "apiserver/", "clientgo/", "controllerruntime/", "debug/", "informertest/", "metrics/", "proxy/"} {
		found := 0
		for file, text := range repository(t, "^"+dir+`[^/]+_test\.go$`) {
			for _, code := range example.FindAllString(text, -1) {
				found++
				if !output.MatchString(code) {
					t.Errorf("%s: an example has no output: %s", file, code)
				}
			}
		}
		if found == 0 {
			t.Errorf("package %q has no example", dir)
		}
	}
}
