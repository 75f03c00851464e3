package debug

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestRedacted checks that the page shows arguments, but not values that may be secret.
func TestRedacted(t *testing.T) {
	for args, want := range map[string]string{
		"watch pods -n default --debug-addr=:8080":                        "watch pods -n default --debug-addr=:8080",
		"--token=hunter2 --password hunter2 -v 4":                         "--token=(hidden) --password (hidden) -v 4",
		"--secret --verbose":                                              "--secret --verbose",
		"--token-file=/run/token --tls-private-key-file k --key-path=/k":  "--token-file=/run/token --tls-private-key-file k --key-path=/k",
		"--db=postgres://me:hunter2@db/x http://me:hunter2@h http://h/@x": "--db=(hidden) (hidden) http://h/@x",
		"DB_PASSWORD=hunter2 --header=X:hunter2":                          "DB_PASSWORD=(hidden) --header=(hidden)",
		"--api-key hunter2 --aws-secret-access-key=hunter2":               "--api-key (hidden) --aws-secret-access-key=(hidden)",
	} {
		check.Equal(t, strings.Join(redacted(strings.Fields(args)), " "), want, "%s", args)
	}
	if got := redacted([]string{"--h=Authorization: Bearer hunter2"}); got[0] != "--h=(hidden)" {
		t.Errorf("%q", got)
	}
}

// TestProcess checks that the process has a name, a start and versions.
func TestProcess(t *testing.T) {
	p := newProcess([]string{"/usr/bin/controller", "--leader-elect"})
	if p.Program != "controller" || p.PID == 0 || len(p.Args) != 1 || p.Started.IsZero() || !strings.HasPrefix(p.Go, "go") || p.Version != "" && p.Weir == "" {
		t.Errorf("%+v", p)
	}
}
