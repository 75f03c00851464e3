//go:build changed

package main

import (
	_ "sigs.k8s.io/cluster-api/core" // the main package that is built

	_ "github.com/weirproject/weir/controllerruntime" // imported by the changed lines
)
