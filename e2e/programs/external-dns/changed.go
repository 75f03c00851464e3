//go:build changed

package main

import _ "github.com/weirproject/weir/clientgo" // what the changed lines import
