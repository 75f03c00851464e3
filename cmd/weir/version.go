package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what `weir version -o json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	ClientGo string `json:"clientgo"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersion()
			switch output {
			case "":
				fmt.Fprintf(cmd.OutOrStdout(), "weir %s (%s, client-go %s, %s)\n", v.Version, v.Go, v.ClientGo, v.Platform)
				return nil
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			return usagef("-o %s: the output can be json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: json")
	return cmd
}

func readVersion() versionInfo {
	v := versionInfo{
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
