//go:build changed

package main

import _ "github.com/weirproject/weir/clientgo" // imported by the changed lines
