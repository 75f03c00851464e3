package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

type prometheus struct {
	t   *testing.T
	url string
}

// configuration is a Prometheus configuration. The server scrapes one address each second, and
// evaluates the alert rules.
const configuration = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: programs
    static_configs: [{targets: [%q]}]
`

// startPrometheus starts a Prometheus server with the rules of a folder of deploy. It scrapes an
// address, and stops when the test ends.
func startPrometheus(t *testing.T, folder, scraped string) *prometheus {
	t.Helper()
	binary := testenv.Program(t, "prometheus", "prometheus")
	rules, err := filepath.Abs(file(folder, "rules.yaml"))
	check.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	check.NoError(t, os.WriteFile(config, fmt.Appendf(nil, configuration, rules, scraped), 0o600))
	address, err := cluster.FreeAddress()
	check.NoError(t, err)
	said, err := os.Create(filepath.Join(dir, "log"))
	check.NoError(t, err)
	cmd := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = said, said
	check.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		said.Close()
		if text, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("Prometheus said:\n%s", text)
		}
	})
	p := &prometheus{t, "http://" + address}
	p.until("it is ready", func() error {
		resp, err := client.Get(p.url + "/-/ready")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return p
}

// until calls ask until it returns no error, for at most three minutes.
func (p *prometheus) until(what string, ask func() error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	testenv.EventuallyNoError(p.t, ctx, what, ask)
}

// get sends a request to the HTTP API of Prometheus, and decodes the data in the answer into data.
func (p *prometheus) get(path string, query url.Values, data any) {
	p.t.Helper()
	resp, err := client.Get(p.url + "/api/v1/" + path + "?" + query.Encode())
	check.NoError(p.t, err)
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s %v: %s %s %v", path, query, answer.Status, answer.Error, err)
	}
}

// query evaluates expr, and returns the labels of each series of the result.
func (p *prometheus) query(expr string) (series []map[string]string) {
	p.t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	p.get("query", url.Values{"query": {expr}}, &data)
	for _, r := range data.Result {
		series = append(series, r.Metric)
	}
	return series
}

// values returns the values of a dashboard's variable. definition has the form
// label_values(SELECTOR, LABEL).
func (p *prometheus) values(definition string) (values []string) {
	p.t.Helper()
	inner, ok := strings.CutPrefix(strings.TrimSuffix(definition, ")"), "label_values(")
	at := strings.LastIndex(inner, ", ")
	if !ok || at < 0 {
		p.t.Fatalf("%q defines no variable", definition)
	}
	p.get("label/"+inner[at+2:]+"/values", url.Values{"match[]": {inner[:at]}}, &values)
	return values
}
