package store

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestFuncIndexAgainstOlderSnapshots checks queries of snapshots against the results of the
// function for all objects of the snapshot, including the objects for which the function fails.
// Earlier queries of other snapshots must not change the result.
func TestFuncIndexAgainstOlderSnapshots(t *testing.T) {
	testenv.SkipUnderRace(t)
	rnd := newRand(7)
	s := newStore(t, decodeConfig())
	bad := errors.New("bad")
	values := func(v any) ([]string, error) {
		switch state := v.(*corev1.Pod).Labels["state"]; state {
		case "0":
			return nil, bad
		case "1":
			return []string{"1", "2", "1"}, nil
		default:
			return []string{state}, nil
		}
	}
	check.NoError(t, s.AddIndex("state", FuncIndex(values)))
	w, rv, uids := s.Writer(Scope{}), 0, map[string]int{}
	change := func(keys int) {
		rv++
		name := "p" + strconv.Itoa(rnd.IntN(keys))
		if rnd.IntN(4) == 0 && uids[name] != 0 {
			deletePod(t, w, smallPod("", name, uids[name], rv, nil, ""))
			delete(uids, name)
		} else {
			if uids[name] == 0 {
				uids[name] = rv
			}
			putPod(t, w, smallPod("", name, uids[name], rv, map[string]string{"state": strconv.Itoa(rnd.IntN(5))}, ""))
		}
		w.Flush()
	}
	older := []*Snapshot{s.Snapshot()}
	behind := 0
	for range 1500 {
		for range 1 + rnd.IntN(3) {
			change(40)
		}
		if rnd.IntN(2) == 0 {
			older = append(older, s.Snapshot())
		}
		sn := older[len(older)-1-min(rnd.IntN(len(older)), rnd.IntN(len(older)))]
		x := s.funcs["state"]
		if sn.revision < x.upTo {
			behind++
		}
		want, fails := walk(t, sn, values)
		for state := range 5 {
			value := strconv.Itoa(state)
			got, err := byKeys(t, sn, "state", value)
			failed, _ := errors.AsType[*IndexError](err)
			switch {
			case got != strings.Join(want[value], " "):
				t.Fatalf("revision %d, index at %d, %d: %q, want %q", sn.revision, x.upTo, state, got, want[value])
			case len(fails) == 0 && err != nil, len(fails) > 0 && (failed == nil || failed.Key != fails[0] || failed.More != len(fails)-1):
				t.Fatalf("revision %d, index at %d: the error is %v, it fails for %q", sn.revision, x.upTo, err, fails)
			}
		}
	}
	if behind < 100 {
		t.Errorf("%d queries were of older snapshots", behind)
	}
}

// walk calls a function for all objects of a snapshot. It returns, for each value, the keys of the
// objects for which the function returns this value, and the keys of the objects for which the
// function fails.
func walk(t *testing.T, sn *Snapshot, values func(any) ([]string, error)) (keys map[string][]string, fails []string) {
	t.Helper()
	keys = map[string][]string{}
	for o := range sn.All() {
		v, err := o.decodeOnce()
		check.NoError(t, err)
		of, err := values(v)
		if err != nil {
			fails = append(fails, o.Key())
		}
		for _, value := range slices.Compact(slices.Sorted(slices.Values(of))) {
			keys[value] = append(keys[value], o.Key())
		}
	}
	return keys, fails
}
