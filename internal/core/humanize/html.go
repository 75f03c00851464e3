package humanize

import (
	"html"
	"regexp"
	"strconv"
	"strings"
)

var (
	htmlStart = regexp.MustCompile(`(?i)^\s*<(!doctype html|html|head|body)\b`)
	htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
)

// HTMLPage describes a response's body that is an HTML page: "an HTML page with the title …", if it
// has a title. It returns "" for any other text. Login pages and the error pages of front ends are
// such responses.
func HTMLPage(body string) string {
	if !htmlStart.MatchString(body) {
		return ""
	}
	if found := htmlTitle.FindStringSubmatch(body); found != nil {
		title := strings.Join(strings.Fields(html.UnescapeString(found[1])), " ")
		return "an HTML page with the title " + strconv.Quote(Cut(title, maxValue))
	}
	return "an HTML page"
}
