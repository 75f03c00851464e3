package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/command"
)

// setting describes when, where and with which versions a report was measured. The JSON names are
// stable.
type setting struct {
	At          time.Time `json:"at"`
	CPUs        int       `json:"cpus"`
	MemoryBytes float64   `json:"memoryBytes,omitempty"` // of the machine; 0 if unknown
	Go          string    `json:"go"`
	ClientGo    string    `json:"clientGo"`
	Server      string    `json:"server"` // the API server, and its version
}

// newSetting returns the setting of a measurement that starts now, of the cluster with this config
// or of an embedded server. It omits a version that the cluster does not report.
func newSetting(cluster bool, cfg *rest.Config) setting {
	total, _ := machineMemory()
	s := setting{
		At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.GOMAXPROCS(0), MemoryBytes: total,
		Go: runtime.Version(), ClientGo: command.ReadVersion().ClientGo, Server: embeddedServer,
	}
	if cluster {
		s.Server = sideAPIServer
		if client, err := discovery.NewDiscoveryClientForConfig(cfg); err == nil {
			if v, err := client.ServerVersion(); err == nil {
				s.Server += " " + v.GitVersion
			}
		}
	}
	return s
}

const embeddedServer = "Weir's embedded API server"

// source returns the text below a picture. The parameter runs says what one run is.
func (s setting) source(runs string) string {
	return fmt.Sprintf("%s, %s. Machine: %d cores, %.3g GiB of memory, shared by clients and servers. client-go %s; %s; %s.",
		runs, s.At.Format(time.DateOnly), s.CPUs, s.MemoryBytes/(1<<30), s.ClientGo, s.Server, s.Go)
}

// machineMemory returns the memory of this machine, and the part that is available, in bytes. It
// returns 0 for what the system does not report.
func machineMemory() (total, available float64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	memory, err := fs.Meminfo()
	if err != nil || memory.MemTotalBytes == nil || memory.MemAvailableBytes == nil {
		return 0, 0
	}
	return float64(*memory.MemTotalBytes), float64(*memory.MemAvailableBytes)
}
