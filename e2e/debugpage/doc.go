// Package debugpage looks at the page of package debug with a browser: Chromium, without a screen.
package debugpage
