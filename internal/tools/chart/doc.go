// Package chart draws pictures as SVG that needs nothing else, and has the style of pages that hold
// them. All text in a picture is escaped. Pictures and pages follow the reader's colour scheme.
package chart
