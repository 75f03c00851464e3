package weir_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// link matches a link or an image in a document.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)

// TestLinks: links from documents into the repository lead to existing files and headings.
func TestLinks(t *testing.T) {
	headings, links := map[string]map[string]bool{}, 0
	for _, file := range documents(t) {
		headings[file] = anchors(prose(t, file))
	}
	for file := range headings {
		for _, found := range link.FindAllStringSubmatch(prose(t, file), -1) {
			target, anchor, _ := strings.Cut(found[1]+found[2], "#")
			if strings.Contains(target, ":") {
				continue // an external link
			}
			links++
			to := file
			if target != "" {
				to = path.Join(path.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", file, target, err)
			} else if anchor != "" && !headings[to][anchor] {
				t.Errorf("%s links to %s#%s, and there is no such heading", file, target, anchor)
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// prose returns the text of a document without its blocks of code.
func prose(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	check.NoError(t, err)
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(text), "")
}

// anchors returns the anchors that GitHub assigns to headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}
