module github.com/weirproject/weir/e2e/programs/report

go 1.26.0
