// Package informertest is a conformance suite for informers: stories of what an informer of pods must do, played
// against a small scripted API server.
//
//	func TestInformer(t *testing.T) {
//		informertest.Run(t, informertest.Rig{
//			Name: "mine",
//			New:  func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) { … },
//		})
//	}
//
// An implementation is driven through a [Rig], which makes an [Informer] on a rest.Config. Each story has a name, a
// contract and, where there is one, the issue in which somebody met the opposite; [Stories] lists them. A story that an
// implementation is known to fail is stated by name in Rig.Fails. The suite then requires that it does fail, so that the
// statement stays true, and prints all such statements as a table at the end of its log.
//
// Stories run in testing/synctest bubbles, with the server on in-memory connections: backoff, resync and deadlines
// of minutes take no time, and "nothing more happens" is a fact and not a wait. So an informer under test must start its
// goroutines, timers and channels from New and Run, must use the time package's clock, must reach the server by the
// rest.Config's transport only, and its goroutines must end when Run returns.
//
// [Server] can be used by itself, in a bubble or not.
package informertest
