// Package debugpage tests the page of package debug with a browser: headless Chromium.
package debugpage
