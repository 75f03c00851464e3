package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// promtool runs promtool. It returns the output, and whether the program succeeded.
func promtool(t *testing.T, args ...string) (text string, ok bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Program(t, "prometheus", "promtool"), args...).CombinedOutput()
	return string(out), err == nil
}

// TestRules checks that promtool accepts the alert rules, and that the rules' unit tests pass.
func TestRules(t *testing.T) {
	for folder := range monitored {
		for _, args := range [][]string{{"check", "rules", "--lint-fatal", file(folder, "rules.yaml")}, {"test", "rules", file(folder, "rules_test.yaml")}} {
			if text, ok := promtool(t, args...); !ok || !strings.Contains(text, "SUCCESS") {
				t.Errorf("%q: %s", args, text)
			}
		}
	}
}

// TestRulesCanFail replaces the expression of each alert by one that never fires. It checks that
// the rules' unit tests then fail.
func TestRulesCanFail(t *testing.T) {
	for folder := range monitored {
		rules, err := os.ReadFile(file(folder, "rules.yaml"))
		check.NoError(t, err)
		test, err := os.ReadFile(file(folder, "rules_test.yaml"))
		check.NoError(t, err)
		lines := strings.Split(string(rules), "\n")
		for n, line := range lines {
			_, expr, ok := strings.Cut(line, "expr: ")
			if !ok {
				continue
			}
			broken := append([]string{}, lines...)
			broken[n] = strings.Replace(line, expr, "vector(0) > 1", 1)
			dir := t.TempDir()
			for name, text := range map[string]string{"rules.yaml": strings.Join(broken, "\n"), "rules_test.yaml": string(test)} {
				check.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			if _, ok := promtool(t, "test", "rules", filepath.Join(dir, "rules_test.yaml")); ok {
				t.Errorf("%s: no test fails without this line: %s", folder, line)
			}
		}
	}
}
