package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := command.ReadVersion()
			switch output {
			case "":
				fmt.Fprintln(cmd.OutOrStdout(), "weir", versionText(v))
				return nil
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			return command.Usagef("-o %s: the output can be json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: json")
	return cmd
}

// versionText returns the versions of weir, Go and client-go, and the platform. weir --version also
// prints it.
func versionText(v command.VersionInfo) string {
	return fmt.Sprintf("%s (%s, client-go %s, %s)", v.Version, v.Go, v.ClientGo, v.Platform)
}
