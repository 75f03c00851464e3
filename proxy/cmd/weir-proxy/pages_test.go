package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write this program's page of docs/commands anew")

// TestPages: docs/commands has a page of weir proxy, as this program's help has it: weir itself does
// not know its flags.
func TestPages(t *testing.T) {
	const path = "../../../docs/commands/weir-proxy.md"
	cmd := newCommand()
	var help bytes.Buffer
	cmd.SetOut(&help)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	page := fmt.Sprintf("<!-- Made of the command's help by TestPages; do not edit. -->\n\n# weir proxy\n\n%s.\n\n```\n%s```\n", cmd.Short, &help)
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != page {
		t.Errorf("%s is not what the command's help says (%v); go test . -run TestPages -rewrite writes it anew", path, err)
	}
}
