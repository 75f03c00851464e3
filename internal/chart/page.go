package chart

import (
	_ "embed"
	"html/template"
)

//go:embed page.css
var pageStyle string

// PageStyle returns the style sheet of a page with pictures and tables.
func PageStyle() template.CSS { return template.CSS(pageStyle) }
