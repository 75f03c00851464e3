package doctor

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
)

// building bounds the time to build the servers. This time does not count towards the tests'
// deadlines.
const building = 15 * time.Minute

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), building)
	defer cancel()
	if _, err := cluster.Build(ctx, cluster.LogToStderr); err != nil {
		cluster.LogToStderr("%v", err)
		return 1
	}
	return m.Run()
}
