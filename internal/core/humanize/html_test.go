package humanize

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestHTMLPage(t *testing.T) {
	for body, want := range map[string]string{
		`<!DOCTYPE html><html><head><title>Sign in &amp; go</title></head></html>`: `an HTML page with the title "Sign in & go"`,
		"\n<HTML>\n<Title id=a>\n 503\tgone\n</TITLE>":                             `an HTML page with the title "503 gone"`,
		"<html><title>\x1b[2J</title>":                                             `an HTML page with the title "\x1b[2J"`,
		"<html><title>" + strings.Repeat("x", 99) + "</title>":                     `an HTML page with the title "` + strings.Repeat("x", maxValue-1) + `…"`,
		"<body>no title</body>":                                                    "an HTML page",
		`{"kind":"Status"}`:                                                        "",
		"<htmlx>":                                                                  "",
		"":                                                                         "",
	} {
		check.Equal(t, HTMLPage(body), want, "%s", body)
	}
}
