package main

import "github.com/weirproject/weir/e2e/programs/report"

func init() { report.EndWithInput() }
