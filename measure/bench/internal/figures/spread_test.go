package figures

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestSpreadOf(t *testing.T) {
	got := SpreadOf([]Values{{"a": 3, "b": 1}, {"a": 1, "b": 2}, {"a": 2}})
	if diff := cmp.Diff(Spread{"a": {1, 3}, "b": {1, 2}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpreadCell(t *testing.T) {
	s := Spread{
		"near": {71.2e6, 78.9e6}, "far": {998e6, 1.02e9}, "plain": {1.5, 2}, "same": {4.001, 4.002}, "count": {50_000, 60_000},
	}
	for _, tc := range []struct {
		key  string
		unit Unit
		want string
	}{
		{"near", Bytes, "71.2…78.9 MB"},
		{"far", Bytes, "998 MB…1.02 GB"},
		{"plain", Number, "1.50…2.00"},
		{"same", Number, ""},
		{"count", Count, "50,000…60,000"},
		{"none", Bytes, ""},
	} {
		check.Equal(t, s.Cell(tc.key, tc.unit), tc.want, "%s", tc.key)
	}
}
