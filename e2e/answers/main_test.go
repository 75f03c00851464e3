package answers

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
)

// deadline bounds every wait of these tests, and aRound each further round. They are generous:
// nothing is timed here.
const deadline, aRound = 5 * time.Minute, time.Minute

var (
	rounds = flag.Int("answers.rounds", 1, "how many times the objects get other values, and are compared")
	seed   = flag.Int64("answers.seed", 0, "what decides the values; 0: the time does, but for the first round, which is the same each time")
)

// fixedSeed is that of the first round where none is given: what it finds once it finds again.
const fixedSeed = 1

// seedOf returns what decides the values of a round. Each round takes two.
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
	// shared is the cluster of all tests here, and served are the resources that it has at the
	// start.
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
				// Objects with random values decide nothing for the server itself.
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
		// This makes the connection to etcd, which lives on for all tests.
		_, err = shared.PutFuzzed(ctx, fixedSeed, kindsOf(served, kept))
		return shared, err
	}))
}
