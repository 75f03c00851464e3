package apiserver_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/equality"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // clients and servers make much garbage and hold little
	goleak.VerifyTestMain(m)
}

// semanticEqual compares objects as the API means them: no list is an empty list.
func semanticEqual(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
