package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// record is the contents of a row's file.
type record struct {
	Command string         `json:"command"`
	Commit  string         `json:"commit"`
	Build   string         `json:"build"` // identifies the measured code: a hash of weir-bench
	Pods    int            `json:"pods"`
	Runs    int            `json:"runs"`
	CPUs    int            `json:"cpus"`
	At      time.Time      `json:"at"`
	Ratio   figures.Values `json:"ratio"` // the medians
	// Results is the command's output. For a row of weir-bench, it has all figures of Weir and of
	// client-go, and their spread. For a row that measures a program, it has one line per run, from
	// the table that TestPrograms prints.
	Results json.RawMessage `json:"results"`
}

// same reports whether two records are of the same command, build and flags.
func (r *record) same(of *record) bool {
	return r.Command == of.Command && r.Build == of.Build && r.Pods == of.Pods && r.Runs == of.Runs
}

// read returns the record in a file, or nil if there is no such file.
func read(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// write writes a record to a file. If it fails, the file is unchanged.
func (r *record) write(path string) error {
	part, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // does nothing after the rename
	if err := errors.Join(figures.WriteJSON(part, r), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// load returns the records of rows in a directory, by the rows' names. It omits rows without a
// file.
func load(dir string, rows []row) (map[string]*record, error) {
	all := map[string]*record{}
	for _, of := range rows {
		r, err := read(filepath.Join(dir, of.name+".json"))
		if err != nil {
			return nil, err
		}
		if r != nil {
			all[of.name] = r
		}
	}
	return all, nil
}

// table returns a Markdown table of figures with their limits. kept reports whether all figures
// were measured and are within their limits.
func table(rows []row, baseline, now map[string]*record) (text string, kept bool) {
	var b strings.Builder
	b.WriteString("| ratio to client-go | published | limit | baseline | now | | command |\n|---|---|---|---|---|---|---|\n")
	kept = true
	for _, of := range rows {
		for i, f := range of.figures {
			label, command := "… "+f.label, ""
			if i == 0 {
				label, command = f.label, "`"+of.command()+"`"
			}
			was, recorded := value(baseline[of.name], f.key)
			is, measured := value(now[of.name], f.key)
			verdict, limit := "no baseline", "-"
			if bound, ok := f.bound(was, recorded); ok {
				limit, verdict = f.sign()+" "+humanize.Number(bound), "kept"
				if !f.keeps(is, bound) {
					verdict = "BROKEN"
				}
			}
			if !measured {
				verdict = "not measured"
			}
			kept = kept && verdict == "kept"
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", label, f.published, limit,
				baseline[of.name].ratios().Cell(f.key, figures.Number), now[of.name].ratios().Cell(f.key, figures.Number), verdict, command)
		}
	}
	return b.String(), kept
}

// sign returns the sign between a value and its limit: "≥" if more is better, and otherwise "≤".
func (f figure) sign() string {
	if f.kind == rate {
		return "≥"
	}
	return "≤"
}

// ratios returns the medians of a record. It returns nil if r is nil.
func (r *record) ratios() figures.Values {
	if r == nil {
		return nil
	}
	return r.Ratio
}

func value(r *record, key string) (float64, bool) {
	v, ok := r.ratios()[key]
	return v, ok
}
