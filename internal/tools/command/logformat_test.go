package command

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spf13/pflag"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestLogsJSON checks where arguments may have the flag.
func TestLogsJSON(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "--log-format json": true, "watch --log-format=json pods": true, "--log-format=text": false,
		"--log-format": false, "-- --log-format json": false, "--log-format json --log-format=text": false, "json": false,
	} {
		check.Equal(t, logsJSON(strings.Fields(args)), want, args)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddLogFormat(fs)
	check.NoError(t, fs.Parse([]string{"--log-format=json"}))
	err := FlagError("weir", fs.Parse([]string{"--log-format=xml"}))
	check.Equal(t, err.Error(), "--log-format xml: want text or json", "error")
}

// TestLogLines checks the level and the message of each line, and that JSON objects remain as they
// are.
func TestLogLines(t *testing.T) {
	long := strings.Repeat("x", maxLogLine+1)
	in := "reading\n\nerror: no \"cluster\"\nnote: a log\n{\"msg\":\"own\",\"n\":1}\n{not json}\n" + long + "\nno end"
	var out bytes.Buffer
	logLines(&out, iotest.HalfReader(strings.NewReader(in)))
	var got []string
	for line := range strings.Lines(out.String()) {
		var m struct{ Time, Level, Msg string }
		check.NoError(t, json.Unmarshal([]byte(line), &m))
		if m.Time == "" && m.Msg != "own" {
			t.Errorf("no time in %s", line)
		}
		got = append(got, m.Level+" "+m.Msg)
	}
	check.Equal(t, strings.Join(got, "|"), "INFO reading|ERROR no \"cluster\"|INFO a log| own|INFO {not json}|INFO "+long[1:]+"|INFO x|INFO no end", "lines")
	if !strings.Contains(out.String(), "\n{\"msg\":\"own\",\"n\":1}\n") {
		t.Errorf("an object changed: %s", &out)
	}
}

// TestJSONStderr checks that the lines of this process and of a child become JSON, and that all are
// written when stop returns.
func TestJSONStderr(t *testing.T) {
	real := os.Stderr
	defer func() { os.Stderr = real }()
	file, err := os.Create(t.TempDir() + "/stderr")
	check.NoError(t, err)
	defer file.Close()
	os.Stderr = file
	stop, err := jsonStderr()
	check.NoError(t, err)
	child := exec.Command("sh", "-c", "echo child >&2")
	child.Stderr = os.Stderr
	check.NoError(t, child.Run())
	check.Equal(t, Report(os.Stderr, Usagef("wrong")), exitUsage, "exit code")
	stop()
	check.Equal(t, os.Stderr, file, "os.Stderr")
	text, err := os.ReadFile(file.Name())
	check.NoError(t, err)
	if !strings.Contains(string(text), `"level":"INFO","msg":"child"}`) || !strings.HasSuffix(string(text), `"level":"ERROR","msg":"wrong"}`+"\n") {
		t.Errorf("%s", text)
	}
}
