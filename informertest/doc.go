// Package informertest is a conformance suite for informers. It plays stories of what an informer
// of pods must do against a small scripted API server.
//
//	func TestInformer(t *testing.T) {
//		informertest.Run(t, informertest.Rig{
//			Name: "mine",
//			New:  func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) { … },
//		})
//	}
//
// A [Rig] creates an [Informer] of the implementation under test from a rest.Config. Each story has
// a name, a contract and, if there is one, the issue that reported a violation; [Stories] returns
// them. Rig.Fails names the stories that an implementation is known to fail. The suite then
// requires that it fails them, so that the list stays true, and logs them as a table at the end.
//
// Stories run in testing/synctest bubbles, with the server on in-memory connections. So backoff,
// resyncs and deadlines of minutes take no time, and a test can prove that nothing more will
// happen. In return an informer under test must start its goroutines, timers and channels in New
// and Run, must use the time package's clock, and must reach the server only by the rest.Config's
// transport. Its goroutines must end when Run returns.
//
// [Server] can be used separately, in a bubble or not. To clients that request only metadata it
// sends the result of [MetadataOf], from which an informer of metadata can restore pods with
// [PodOf].
package informertest
