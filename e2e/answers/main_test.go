package answers

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
)

// deadline bounds a test, and aRound is added to it for each round. Both are long because no test
// measures time.
const deadline, aRound = 5 * time.Minute, time.Minute

var (
	rounds = flag.Int("answers.rounds", 1, "how many times the objects get other values, and are compared")
	seed   = flag.Int64("answers.seed", 0, "what decides the values; 0: the time does, but for the first round, which is the same each time")
)

// fixedSeed is the default seed of the first round. It is constant, so that a fault in the first
// round is found again in each run.
const fixedSeed = 1

// seedOf returns the seed of a round. A round uses this seed for its first values, and this seed
// plus 1 for the changed values.
func seedOf(round int) int64 {
	switch {
	case *seed != 0:
		return *seed + int64(2*round)
	case round == 0:
		return fixedSeed
	}
	return time.Now().UnixNano()
}

var (
	// shared is the cluster of all tests of this package. served are the resources that the cluster
	// serves at the start.
	shared *cluster.Cluster
	served []*resource
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(cluster.Main(m, 15*time.Minute, func(ctx context.Context) (c *cluster.Cluster, err error) {
		shared, err = cluster.Start(ctx, cluster.Options{
			Logf: cluster.LogToStderr,
			APIServerArgs: []string{
				"--runtime-config=api/all=true",
				// Random FlowSchemas would otherwise limit the requests of the test.
				"--enable-priority-and-fairness=false",
			},
		})
		if err != nil {
			return shared, err
		}
		if err := defineCustom(ctx); err != nil {
			return shared, err
		}
		if served, err = listable(); err != nil {
			return shared, err
		}
		// The first call opens a connection to etcd, which stays open. Otherwise the check for leaked
		// goroutines of the first test would report the connection.
		_, err = shared.PutFuzzed(ctx, fixedSeed, kindsOf(served, kept))
		return shared, err
	}))
}
