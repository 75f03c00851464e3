package debug

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestFlagNames checks that the page shows names of flags, and nothing that may be a value.
func TestFlagNames(t *testing.T) {
	for args, want := range map[string]string{
		"watch pods -n default --debug-addr=:8080 --v=4":                     "-n --debug-addr --v",
		"--token=hunter2 --password hunter2 -v 4":                            "--token --password -v",
		"--set=db.password=hunter2 --config={\"password\":\"hunter2\"} -p=x": "--set --config -p",
		"hunter2==word --a.b_c=postgres://me:hunt/er2@db/x --":               "--a.b_c",
		"--password -hunter2 --last=1":                                       "--password",
		"--password --hunter2 --last=1":                                      "--password",
		"-phunter2 --user=x -phunter2=hunter2 --x=y -- --hunter2":            "--x",
	} {
		check.Equal(t, strings.Join(flagNames(strings.Split(args, " ")), " "), want, "%s", args)
	}
	for _, value := range []string{"Authorization: Basic dXNlcjpodW50ZXIy==", "X-Api-Key: c2VjcmV0Cg==", "mypass=word", "-hunter2", "--hunter2=", "Server=db;Password=x", "user:pw@tcp(db)/x"} {
		for _, args := range [][]string{{"-H", value}, {"--header", value}, {"--header=" + value}} {
			if got := strings.Join(flagNames(args), " "); got != "-H" && got != "--header" && got != "" {
				t.Errorf("%q shows %q", args, got)
			}
		}
	}
}

// TestProcess checks that the process has a name, a start and versions.
func TestProcess(t *testing.T) {
	p := newProcess([]string{"/usr/bin/controller", "--leader-elect"})
	if p.Program != "controller" || p.PID == 0 || len(p.Flags) != 1 || p.Started.IsZero() || !strings.HasPrefix(p.Go, "go") || p.Version != "" && p.Weir == "" {
		t.Errorf("%+v", p)
	}
}
