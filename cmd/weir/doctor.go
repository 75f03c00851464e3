package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// doctorEvents is the number of events that doctor reads between two updates of the progress.
// Reading them takes milliseconds.
const doctorEvents = 4096

// The maximum values of --objects and --object-bytes, chosen so that their products do not
// overflow.
const (
	maxObjects     = 1_000_000_000
	maxObjectBytes = 100_000_000
)

// outputHTML is the -o value that makes doctor write an HTML page.
const outputHTML = "html"

// doctorFlags are the flags of `weir doctor`.
type doctorFlags struct {
	*command.ClusterFlags
	output  string
	objects []string
	bytes   []string
	top     int
	period  time.Duration
	demo    bool
}

func newDoctor() *cobra.Command {
	f := &doctorFlags{ClusterFlags: command.NewClusterFlags()}
	f.Flags.Lookup("namespace").Hidden = true // doctor rejects this flag
	cmd := &cobra.Command{
		Use:   "doctor [AUDIT-LOG...]",
		Short: "Find who makes an API server spike, from its audit logs or its metrics",
		Long: "Doctor reads kube-apiserver's audit logs. It shows which clients send the most requests, which clients cost more than\n" +
			"they need to, and what to change. It finds polling, resyncs that LIST, WATCHes that end early, LISTs of all pods by\n" +
			"each node, controllers that overwrite each other's objects, and clients that occupied the seats while requests were\n" +
			"refused. Logs may be rotated, compressed with gzip, from several servers, and in any order; - is stdin.\n\n" +
			"If doctor has the numbers of objects, it predicts the server's cost of each client's LISTs, the cost with each remedy,\n" +
			"and the cost of a restart of all clients at the same time. The numbers come from --objects or from the server that\n" +
			"kubectl's flags select; otherwise doctor estimates them from the names in the log. The report states their origin.\n" +
			"The cost model was measured on a kube-apiserver.\n\n" +
			"Without a log, doctor reads the metrics of the server that kubectl's flags select, for a minute. It then shows the cost\n" +
			"of LISTs and WATCHes by resource, because metrics do not name clients. With a log and such a flag, doctor requests only\n" +
			"the numbers and sizes of objects from that server.",
		Example: "  weir doctor --demo\n" +
			"  weir doctor /var/log/kubernetes/audit*.log\n" +
			"  weir doctor audit-*.gz --objects pods=50000,secrets=8000\n" +
			"  weir doctor audit-*.gz --context production -o html >report.html\n" +
			"  kubectl logs audit-webhook | weir doctor - -o json\n" +
			"  weir doctor --context production",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo && len(args) > 0 || f.demo && f.Chosen() {
				return command.Usagef("--demo analyses a log that weir contains, and neither another log nor a server")
			}
			if len(args) == 0 && (f.demo || f.Chosen()) {
				return nil
			}
			return checkLogs(cmd.CommandPath(), args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "Output format: json for all counts, html for a page with charts; empty: tables and sentences")
	cmd.Flags().StringSliceVar(&f.objects, "objects", nil, "Numbers of objects, such as pods=50000,deployments.apps=2000; doctor orders findings by them")
	cmd.Flags().StringSliceVar(&f.bytes, "object-bytes", nil, "Sizes of stored objects in bytes, such as pods=5000")
	cmd.Flags().BoolVar(&f.demo, "demo", false, "Analyse an example log that weir contains")
	cmd.Flags().IntVar(&f.top, "top", 10, "Number of rows of the table")
	cmd.Flags().DurationVar(&f.period, "for", defaultLive, "How long to observe a running server")
	cmd.Flags().AddFlagSet(f.Flags)
	return cmd
}

// checkLogs returns a usage error if names is empty, or if two names lead to the same file.
func checkLogs(path string, names []string) error {
	if len(names) == 0 {
		return command.Usagef("which AUDIT-LOG? For example: %s /var/log/kubernetes/audit*.log; or which server, such as --context production? An example report: %[1]s --demo", path)
	}
	var files []os.FileInfo
	for i, name := range names {
		if slices.ContainsFunc(names[:i], func(before string) bool { return filepath.Clean(before) == filepath.Clean(name) }) {
			return command.Usagef("%s is named twice", name)
		}
		stat := func() (os.FileInfo, error) { return os.Stat(name) }
		if name == "-" {
			stat = os.Stdin.Stat
		}
		info, err := stat()
		if err != nil {
			continue // opening the file later reports the error
		}
		if at := slices.IndexFunc(files, func(before os.FileInfo) bool { return os.SameFile(before, info) }); at >= 0 {
			return command.Usagef("%s is a file that is named twice, by another name", name)
		}
		files = append(files, info)
	}
	return nil
}

// sizes parses the values of --objects and --object-bytes.
func (f *doctorFlags) sizes() (o doctor.Options, err error) {
	if o.Objects, err = parseSizes("--objects", "COUNT, such as pods=50000", f.objects, 0, maxObjects); err != nil {
		return o, err
	}
	o.Bytes, err = parseSizes("--object-bytes", "BYTES, such as pods=5000", f.bytes, 1, maxObjectBytes)
	return o, err
}

// parseSizes parses the values of a flag and returns the numbers by resource. Each value has the
// form RESOURCE=NUMBER, and NUMBER must not be below least or above most. want describes the form
// of NUMBER in errors.
func parseSizes(flag, want string, texts []string, least, most int64) (map[string]int64, error) {
	sizes := map[string]int64{}
	for _, text := range texts {
		resource, count, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < least || n > most || resource == "" {
			return nil, command.Usagef("%s %s: want RESOURCE=%s", flag, text, want)
		}
		if _, twice := sizes[resource]; twice {
			return nil, command.Usagef("%s %s: %s is given twice", flag, text, resource)
		}
		sizes[resource] = n
	}
	return sizes, nil
}

func (f *doctorFlags) run(cmd *cobra.Command, names []string) error {
	if f.output != "" && f.output != outputJSON && f.output != outputHTML {
		return command.Usagef("-o %s: the output can be json or html", f.output)
	}
	if f.top < 0 {
		return command.Usagef("--top cannot be negative")
	}
	if err := f.checkCluster(); err != nil {
		return err
	}
	if len(names) == 0 && !f.demo {
		return f.runLive(cmd)
	}
	return f.runLogs(cmd, names)
}

// checkCluster rejects flags that would have no effect. The flag --namespace has no effect, because
// doctor examines whole servers. Other flags about a server have no effect if no flag selects a
// server.
func (f *doctorFlags) checkCluster() error {
	if f.Flags.Changed("namespace") {
		return command.Usagef("--namespace: doctor analyses whole logs and servers, not single namespaces")
	}
	if name := f.AboutCluster(); name != "" && !f.Chosen() {
		return command.Usagef("%s needs a server: select one with --kubeconfig, --context, --cluster or --server", name)
	}
	return nil
}

// runLive examines a running server and prints the report.
func (f *doctorFlags) runLive(cmd *cobra.Command) error {
	if err := f.checkLive(); err != nil {
		return err
	}
	report, err := f.live(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return f.show(cmd.OutOrStdout(), report, newLivePage(report, f.top))
}

// show prints a report in the form that -o selects: value as JSON, or the page p as HTML or text.
func (f *doctorFlags) show(out io.Writer, value any, p *doctorPage) error {
	switch f.output {
	case outputJSON:
		return json.NewEncoder(out).Encode(value)
	case outputHTML:
		return p.write(out)
	}
	return newPrescription(out).print(p)
}

// runLogs reads audit logs and prints the report.
func (f *doctorFlags) runLogs(cmd *cobra.Command, names []string) error {
	if cmd.Flags().Changed("for") {
		return command.Usagef("--for applies to a running server; logs are read to their ends")
	}
	o, err := f.sizes()
	if err != nil {
		return err
	}
	given := map[string][]string{"--objects": slices.Sorted(maps.Keys(o.Objects)), "--object-bytes": slices.Sorted(maps.Keys(o.Bytes))}
	o.Model = cost.Load()
	if f.demo {
		log, objects := doctor.Demo()
		maps.Copy(objects, o.Objects)
		o.Objects, names = objects, []string{"-"}
		cmd.SetIn(log)
		fmt.Fprintln(cmd.ErrOrStderr(), "note: this is the log of a simulated cluster; for yours: weir doctor AUDIT-LOG...")
	}
	if f.Chosen() {
		if err := f.sizesOf(cmd.Context(), &o); err != nil {
			return err
		}
	}
	d := doctor.New(o)
	read, err := examine(cmd, d, names)
	if err != nil {
		return err
	}
	report := d.Report()
	if report.Empty() {
		return nothingIn(names, read)
	}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		for _, name := range unseen(given[flag], report) {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s %s: no client requests this resource in these logs; resources have kubectl's names, such as deployments.apps\n", flag, command.Printable(name))
		}
	}
	return f.show(cmd.OutOrStdout(), struct {
		Read    evidence.Counts `json:"read"`
		Verdict verdict         `json:"verdict"`
		*doctor.Report
	}{read, newVerdict(report, read), report}, newPage(report, read, o.Model, f.top))
}

// unseen returns the names of resources for which the logs have no request. It modifies the slice
// names.
func unseen(names []string, r *doctor.Report) []string {
	asked := map[string]bool{}
	for _, c := range r.Clients {
		for _, res := range c.Resources {
			asked[res.Name] = true
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return asked[name] })
}

// examine adds all events of the logs to a doctor, and returns the counts of the logs. After an
// interrupt it returns errInterrupted, even while it waits for a pipe.
func examine(cmd *cobra.Command, d *doctor.Doctor, names []string) (evidence.Counts, error) {
	var p *progress
	if _, ok := terminal(cmd.ErrOrStderr()); ok {
		p = newProgress(cmd.ErrOrStderr(), "audit log", 0)
		p.unit = "events"
		defer p.end()
	}
	type result struct {
		read evidence.Counts
		err  error
	}
	ended := make(chan result, 1)
	go func() { // ends when the logs are read; after an interrupt, it ends with the process
		read, err := addAll(d, names, cmd.InOrStdin(), p)
		ended <- result{read, err}
	}()
	select {
	case r := <-ended:
		return r.read, r.err
	case <-cmd.Context().Done():
		return evidence.Counts{}, errInterrupted
	}
}

// addAll adds all events of the logs to a doctor. It shows the progress on p unless p is nil.
func addAll(d *doctor.Doctor, names []string, stdin io.Reader, p *progress) (evidence.Counts, error) {
	logs, err := evidence.NewMerge(names, stdin)
	if err != nil {
		return evidence.Counts{}, err
	}
	var shown time.Time
	for n := 1; ; n++ {
		e, err := logs.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return logs.Counts(), errors.Join(err, logs.Close())
		}
		d.Add(e)
		if p != nil && n%doctorEvents == 0 && time.Since(shown) >= progressEvery {
			shown = time.Now()
			read := logs.Counts()
			p.show(int(read.Events), read.Bytes)
		}
	}
}

// nothingIn returns an error that explains why the logs give nothing to report.
func nothingIn(names []string, read evidence.Counts) error {
	what := strings.Join(names[:min(len(names), 3)], ", ")
	if len(names) > 3 {
		what += fmt.Sprintf(" and %d more", len(names)-3)
	}
	if read.Events == 0 && len(read.Damaged) > 0 {
		return fmt.Errorf("%s: no events; damaged: %s", what, strings.Join(read.Damaged[:min(len(read.Damaged), 3)], ", "))
	}
	if read.Events == 0 {
		return fmt.Errorf("%s: no events", what)
	}
	return fmt.Errorf("%s: no request is complete: the audit policy must not omit the stage ResponseComplete", what)
}
