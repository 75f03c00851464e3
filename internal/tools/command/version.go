package command

import (
	"runtime"
	"runtime/debug"
)

// VersionInfo is the output of `version -o json`.
type VersionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	ClientGo string `json:"clientgo"`
	Platform string `json:"platform"`
}

// ReadVersion returns the versions from which this program was built.
func ReadVersion() VersionInfo {
	v := VersionInfo{
		Version:  "(devel)",
		Go:       runtime.Version(),
		ClientGo: "unknown",
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, m := range b.Deps {
		if m.Path == "k8s.io/client-go" {
			v.ClientGo = m.Version
		}
	}
	return v
}
