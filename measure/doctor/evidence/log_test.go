package evidence

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// at returns the line of an event at a second since 1970.
func at(second int) string {
	return strings.Replace(listLine, "2026-11-20T08:00:01.250000Z", time.Unix(int64(second), 0).UTC().Format("2006-01-02T15:04:05.000000Z"), 1) + "\n"
}

func seconds(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(at(i))
	}
	return b.String()
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, w.Close())
	return b.String()
}

// next is implemented by Log and Merge.
type next interface {
	Next() (*Event, error)
	Counts() Counts
}

func drain(t *testing.T, from next) (seconds []int, err error) {
	t.Helper()
	for {
		e, err := from.Next()
		if errors.Is(err, io.EOF) {
			return seconds, nil
		}
		if err != nil {
			return seconds, err
		}
		seconds = append(seconds, int(e.Staged/1e6))
	}
}

func TestLog(t *testing.T) {
	long := strings.Repeat("x", MaxLine+1)
	for _, c := range []struct {
		name, text         string
		events             int
		malformed, tooLong int64
	}{
		{name: "empty"},
		{name: "empty lines", text: "\n \n"},
		{name: "no end of the last line", text: strings.TrimSpace(seconds(1, 4)), events: 3},
		{name: "carriage returns", text: strings.ReplaceAll(seconds(1, 4), "\n", "\r\n"), events: 3},
		{name: "a byte order mark", text: "\ufeff" + seconds(1, 4), events: 3},
		{name: "a malformed line", text: at(1) + "{\n" + at(2), events: 2, malformed: 1},
		{name: "cut off at the end", text: at(1) + at(2)[:300], events: 1, malformed: 1},
		{name: "a long line", text: at(1) + long + "\n" + at(2), events: 2, malformed: 1},
		{name: "a very long line", text: at(1) + long + long + long + "\n" + at(2), events: 2, malformed: 1},
		{name: "a long line at the end", text: at(1) + long, events: 1, malformed: 1},
		{name: "a long line that just fits", text: at(1) + long[:MaxLine] + "\n" + at(2), events: 2, malformed: 1},
		{name: "many", text: seconds(1, 2000), events: 1999},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range []string{c.text, zipped(t, strings.TrimPrefix(c.text, "\ufeff"))} {
				log, err := NewLog(c.name, iotest.HalfReader(strings.NewReader(text)))
				check.NoError(t, err)
				got, err := drain(t, log)
				if err != nil || len(got) != c.events {
					t.Errorf("%d events, %v; want %d", len(got), err, c.events)
				}
				n := log.Counts()
				if n.Malformed != c.malformed || n.TooLong != c.tooLong || n.Events != int64(c.events) || n.Bytes != int64(len(strings.TrimPrefix(c.text, "\ufeff"))) {
					t.Errorf("%+v", n)
				}
			}
		})
	}
}

func TestLogRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"text":            "one\ntwo\n",
		"a long line":     strings.Repeat("x", MaxLine+2),
		"another version": strings.ReplaceAll(at(1), "audit.k8s.io/v1", "audit.k8s.io/v1beta1"),
	} {
		log, err := NewLog("that", strings.NewReader(text))
		check.NoError(t, err)
		if _, err = drain(t, log); !errors.Is(err, ErrNotALog) || !strings.HasPrefix(err.Error(), "that is no audit log") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLogDamaged checks that a compressed log that is truncated, or followed by other data, returns
// its readable events and reports the damage. It checks that an error of the underlying reader is
// returned.
func TestLogDamaged(t *testing.T) {
	whole := zipped(t, seconds(1, 2000))
	for _, c := range []struct {
		name, text string
		least      int
		damaged    bool
	}{
		{name: "whole", text: whole, least: 1999},
		{name: "two members", text: whole + whole, least: 2 * 1999},
		{name: "half", text: whole[:len(whole)/2], least: 100, damaged: true},
		{name: "no trailer", text: whole[:len(whole)-8], least: 1999, damaged: true},
		{name: "half of the second member", text: whole + whole[:len(whole)/2], least: 1999 + 100, damaged: true},
		{name: "part of a header", text: whole[:5], damaged: true},
		{name: "something behind", text: whole + "tail of no member", least: 1999, damaged: true},
	} {
		log, err := NewLog("that", strings.NewReader(c.text))
		check.NoError(t, err)
		got, err := drain(t, log)
		if n := log.Counts(); err != nil || len(got) < c.least || len(n.Damaged) > 0 != c.damaged {
			t.Errorf("%s: %d events, %v, %q", c.name, len(got), err, n.Damaged)
		}
	}
	broken := errors.New("no disk")
	log, err := NewLog("that", io.MultiReader(strings.NewReader(whole[:len(whole)/2]), iotest.ErrReader(broken)))
	check.NoError(t, err)
	if _, err = drain(t, log); !errors.Is(err, broken) || log.Counts().Damaged != nil {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// TestLogSkipsWrongTimes checks that a single event whose time differs from its neighbours' is
// skipped, at any position. It checks that other events are not skipped: events after a gap, events
// of a second log in the same file, and events that are all far from each other.
func TestLogSkipsWrongTimes(t *testing.T) {
	const day, future, past = 24 * 3600, 4_000_000_000, 1
	for _, c := range []struct {
		name       string
		give, want []int
	}{
		{"in the future", []int{10 * day, 10*day + 1, future, 10*day + 2}, []int{10 * day, 10*day + 1, 10*day + 2}},
		{"in the past", []int{10 * day, 10*day + 1, past, 10*day + 2}, []int{10 * day, 10*day + 1, 10*day + 2}},
		{"the first", []int{past, 10 * day, 10*day + 1}, []int{10 * day, 10*day + 1}},
		{"the second", []int{10 * day, future, 10*day + 1}, []int{10 * day, 10*day + 1}},
		{"the last", []int{10 * day, 10*day + 1, future}, []int{10 * day, 10*day + 1}},
		{"each second one", []int{10 * day, future, 10*day + 1, past, 10*day + 2, future}, []int{10 * day, 10*day + 1, 10*day + 2}},
		{"a gap", []int{day, day + 1, 10 * day, 10*day + 1}, []int{day, day + 1, 10 * day, 10*day + 1}},
		{"another log behind", []int{10 * day, 10*day + 1, day, day + 1}, []int{10 * day, 10*day + 1, day, day + 1}},
		{"far from each other", []int{day, 3 * day, 5 * day, 7 * day}, []int{day, 3 * day, 5 * day, 7 * day}},
		{"one", []int{future}, []int{future}},
		{"two", []int{past, future}, []int{past, future}},
	} {
		var text strings.Builder
		for _, second := range c.give {
			text.WriteString(at(second))
		}
		log, err := NewLog(c.name, strings.NewReader(text.String()))
		check.NoError(t, err)
		got, err := drain(t, log)
		if n := log.Counts().Misdated; err != nil || !slices.Equal(got, c.want) || n != int64(len(c.give)-len(c.want)) {
			t.Errorf("%s: %v, %v, %d skipped; want %v", c.name, got, err, n, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	late, early := write("audit.log", seconds(200, 300)), write("audit-1.log.gz", zipped(t, seconds(1, 100)))
	other, empty := write("other.log", seconds(50, 250)), write("empty.log", "")
	m, err := NewMerge([]string{late, "-", empty, other, early}, strings.NewReader(seconds(120, 140)))
	check.NoError(t, err)
	got, err := drain(t, m)
	if err != nil || len(got) != 99+100+200+20 || !slices.IsSorted(got) {
		t.Errorf("%d events, sorted %v, %v", len(got), slices.IsSorted(got), err)
	}
	if n := m.Counts(); n.Events != int64(len(got)) {
		t.Errorf("%+v", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for name, path := range map[string]string{
		"no such file":   filepath.Join(dir, "none"),
		"is a directory": dir,
		"no audit log":   write("notes", "notes\n"),
	} {
		if _, err := NewMerge([]string{late, path}, nil); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCountsOften checks that repeated calls of Counts do not change the counts.
func TestCountsOften(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 2 {
		names = append(names, filepath.Join(dir, fmt.Sprint(i)))
		check.NoError(t, os.WriteFile(names[i], []byte("text\n"+seconds(1+10*i, 3+10*i)), 0o600))
	}
	m, err := NewMerge(names, nil)
	check.NoError(t, err)
	for err == nil {
		_, err = m.Next()
		m.Counts()
		m.Counts()
	}
	if n := m.Counts(); !errors.Is(err, io.EOF) || n.Malformed != 2 || n.Causes[string(ErrNoJSON)] != 2 {
		t.Errorf("%v, %+v", err, n)
	}
}

// TestMergeMany checks that more logs than maxOpen are read completely.
func TestMergeMany(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range maxOpen + 8 {
		names = append(names, filepath.Join(dir, fmt.Sprint(i)))
		check.NoError(t, os.WriteFile(names[i], []byte(seconds(1, 3)), 0o600))
	}
	m, err := NewMerge(names, nil)
	check.NoError(t, err)
	if got, err := drain(t, m); err != nil || len(got) != 2*len(names) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// BenchmarkLog reads a log of events, including the splitting into lines.
func BenchmarkLog(b *testing.B) {
	text := []byte(seconds(1, 10_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		log, err := NewLog("bench", bytes.NewReader(text))
		check.NoError(b, err)
		for err == nil {
			_, err = log.Next()
		}
	}
}
