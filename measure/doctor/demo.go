package doctor

import (
	"bytes"
	_ "embed"
	"io"
)

// demoLog is the log of testdata/demo.txt, compressed with gzip. TestDemo writes it.
//
//go:embed demo.log.gz
var demoLog []byte

// Demo returns the audit log of a simulated cluster on a bad day, compressed with gzip. It also
// returns the numbers of the cluster's objects, by resource; the caller may modify the map.
func Demo() (log io.Reader, objects map[string]int64) {
	return bytes.NewReader(demoLog), map[string]int64{
		"pods": 15_000, "secrets": 12_000, "configmaps": 4_000, "deployments.apps": 1_500,
		"leases.coordination.k8s.io": 500, "nodes": 500,
	}
}
