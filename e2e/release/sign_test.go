package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestSign signs a release with a new key: scripts/release its tags, and scripts/sign the checksums
// of its downloads. Without the key, both must fail and change nothing. scripts/sign must refuse
// downloads that differ from the checksums.
func TestSign(t *testing.T) {
	gpg := testenv.Program(t, "gpg", "gpg")
	home, err := os.MkdirTemp("", "gpg") // short: the path of a socket in it has at most 108 bytes
	check.NoError(t, err)
	env := []string{
		"GNUPGHOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=r", "GIT_AUTHOR_EMAIL=r@example.com",
		"GIT_COMMITTER_NAME=r", "GIT_COMMITTER_EMAIL=r@example.com",
	}
	t.Cleanup(func() { // gpg starts an agent
		stop := exec.Command("gpgconf", "--kill", "all")
		stop.Env = append(os.Environ(), env...)
		check.NoError(t, stop.Run())
		check.NoError(t, os.RemoveAll(home))
	})
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, ".", nil, "git", "clone", "-q", topLevel(t), clone)
	dist := filepath.Join(clone, "dist")
	check.NoError(t, os.Mkdir(dist, 0o755))
	check.NoError(t, os.WriteFile(filepath.Join(dist, "weir.tar.gz"), []byte("weir"), 0o600))
	run(t, dist, nil, "sh", "-c", "sha256sum weir.tar.gz > checksums.txt")
	fails := func(why, script string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), script, args...)
		cmd.Dir, cmd.Env = clone, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%s: %v, %s", script, err, out)
		}
	}
	before := run(t, clone, nil, "git", "rev-parse", "HEAD")
	fails("git cannot sign tags", "scripts/release", version)
	fails("set git's user.signingkey", "scripts/sign")
	fails("run make release first", "scripts/sign", home)
	fails("usage:", "scripts/sign", "--help")
	check.Equal(t, run(t, clone, nil, "git", "rev-parse", "HEAD"), before)
	check.Equal(t, run(t, clone, nil, "git", "tag", "--list", "*"+version), "")

	run(t, clone, env, gpg, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "r <r@example.com>", "ed25519", "sign", "never")
	run(t, clone, env, "git", "config", "user.signingkey", "r@example.com")
	run(t, clone, env, "scripts/release", version)
	for _, sub := range modules {
		run(t, clone, env, "git", "tag", "--verify", strings.TrimPrefix(sub+"/"+version, "/"))
	}
	run(t, clone, env, "scripts/sign")
	run(t, dist, env, gpg, "--batch", "--verify", "checksums.txt.asc", "checksums.txt")
	check.NoError(t, os.WriteFile(filepath.Join(dist, "weir.tar.gz"), []byte("other"), 0o600))
	fails("the downloads are not those of the checksums", "scripts/sign")
}
