package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/tools/command"
)

const (
	// completionTimeout limits how long a user waits after pressing the tab key.
	completionTimeout = 2 * time.Second
	// completionLimit limits the number of namespaces in one answer: a longer list does not help.
	completionLimit = "500"
)

// completion offers completions to a shell. If it finds none, for example because the server does
// not answer, it offers nothing and prints nothing.
type completion struct{ *command.ClusterFlags }

// complete registers the completions of a command's argument and flags. It panics if the command
// lacks one of these flags.
func (c completion) complete(cmd *cobra.Command) {
	cmd.ValidArgsFunction = c.resources
	none := cobra.ShellCompDirectiveNoFileComp
	for flag, words := range map[string]cobra.CompletionFunc{
		"namespace": c.namespaces,
		"context":   c.ofKubeconfig(func(cfg *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(cfg.Contexts)) }),
		"cluster":   c.ofKubeconfig(func(cfg *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(cfg.Clusters)) }),
		"user":      c.ofKubeconfig(func(cfg *clientcmdapi.Config) []string { return slices.Collect(maps.Keys(cfg.AuthInfos)) }),
		"output": cobra.FixedCompletions([]string{outputCustomColumns + "=", outputJSON, outputJSONPath + "=", outputName, outputWide, outputYAML},
			none|cobra.ShellCompDirectiveNoSpace),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, words); err != nil {
			panic(err) // the command has no such flag
		}
	}
}

// resources offers the names of the resources that can be watched. After a comma it offers only the
// names that the user has not typed yet.
func (c completion) resources(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before := word[:strings.LastIndexByte(word, ',')+1]
	names := c.ask(cmd.Context(), func(ctx context.Context, client *source.Discovery) []string {
		lists, _ := client.All(ctx) // Errors are ignored: lists has the groups without errors.
		return watchableNames(lists)
	})
	given := strings.Split(before, ",")
	var words []string
	for _, name := range names {
		if !slices.Contains(given, name) {
			words = append(words, before+name)
		}
	}
	return matching(words, word), cobra.ShellCompDirectiveNoFileComp
}

// watchableNames returns the names, with groups, of the resources that can be listed and watched. A
// resource with several versions appears once.
func watchableNames(lists []*metav1.APIResourceList) []string {
	var names []string
	for _, list := range lists {
		group, _, grouped := strings.Cut(list.GroupVersion, "/")
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "watch") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			name := r.Name
			if grouped {
				name += "." + group
			}
			if !slices.Contains(names, name) { // another version of r may have added it
				names = append(names, name)
			}
		}
	}
	return names
}

func (c completion) namespaces(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	names := c.ask(cmd.Context(), func(ctx context.Context, client *source.Discovery) []string {
		raw, err := client.REST().Get().AbsPath("/api/v1/namespaces").Param("limit", completionLimit).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json").DoRaw(ctx)
		var list metav1.PartialObjectMetadataList
		if err != nil || json.Unmarshal(raw, &list) != nil {
			return nil
		}
		var names []string
		for _, namespace := range list.Items {
			names = append(names, namespace.Name)
		}
		return names
	})
	return matching(names, word), cobra.ShellCompDirectiveNoFileComp
}

// ofKubeconfig returns a completion function. It loads the kubeconfig and offers the result of
// names.
func (c completion) ofKubeconfig(names func(*clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		raw, err := c.Rules.Load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(names(raw), word), cobra.ShellCompDirectiveNoFileComp
	}
}

// ask calls question with a client of the configured server and a context that ends after
// completionTimeout. It returns nil if no server is configured or the configuration is invalid.
func (c completion) ask(ctx context.Context, question func(context.Context, *source.Discovery) []string) []string {
	if configured, err := c.Configured(); err != nil || !configured {
		return nil
	}
	cfg, err := c.RestConfig()
	if err != nil {
		return nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = completionTimeout
	client, err := source.NewDiscovery(cfg)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	return question(ctx, client)
}

// matching returns the words that start with the typed text, sorted. It modifies the slice words.
func matching(words []string, begun string) []string {
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begun) })
	slices.Sort(words)
	return words
}
