package cluster

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestComparable(t *testing.T) {
	const item = `{"metadata":{"resourceVersion":"7"}}`
	for body, want := range map[string]string{
		`{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"a"},"items":[` + item + `]}`: `{"kind":"PodList","metadata":{"resourceVersion":"R","continue":"C"},"items":[` + item + `]}`,
		`{"items":[` + item + `],"metadata":{"continue":"","resourceVersion":"7"}}`:                   `{"items":[` + item + `],"metadata":{"continue":"","resourceVersion":"R"}}`,
		`{"metadata":{"resourceVersion": "7"},"items":null}`:                                          `{"metadata":{"resourceVersion": "R"},"items":null}`,
		item: item,
	} {
		check.Equal(t, string(ComparableList([]byte(body))), want, "%s", body)
	}
}
