// Package debugpage tests the page of package debug in headless Chromium.
package debugpage
