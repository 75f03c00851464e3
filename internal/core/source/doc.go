// Package source opens LIST and WATCH streams of one resource, and requests the list of a server's
// resources ([Discovery]).
//
// A [Source] returns streams of objects: package wire splits a body into objects while the body
// arrives. A Source never stores a whole LIST. [REST] is the Source for a rest.Config. [NewList]
// and [NewWatch] read a response that another HTTP client received for a request with the Accept
// header of [Resource.Accept]. Weir uses these two functions for a user's ListerWatcher: Weir wraps
// the transport of the ListerWatcher's client, and reads the responses there. [NewObjectList] and
// [NewObjectWatch] return the decoded objects of a ListerWatcher instead.
//
// # Requests
//
// A request asks for an encoding (protobuf with JSON as the fallback, or JSON only), and for whole
// objects or only their metadata. The Content-Type of the response decides how its body is read. If
// a WATCH response has no Content-Type, it is read as JSON. If a LIST response has none, its
// encoding is guessed from its first bytes. LISTs, and WATCHes with initial events, ask for gzip,
// because their responses are long. This package decompresses the body itself, because net/http has
// two disadvantages. It does not count the received bytes, and it may return the last bytes of a
// gzip member only after the next member has arrived.
//
// # Bounds
//
// A LIST is read in the goroutine that calls Next, with one read buffer. For a WATCH over HTTP,
// another goroutine reads ahead into a ring of at most 256 KiB. That goroutine starts with the
// first Next and ends with the stream.
//
// A LIST fails with [ErrStalled] if it receives no byte for [Options.IdleTimeout]. A WATCH fails
// with ErrStalled if the server does not end it within 30 s after the timeout that the request
// contained. If the request had no timeout, only the transport ends a dead connection. A response
// must start within [Options.HeaderTimeout]. Close ends the request, the timers and the goroutine,
// and so does the end of the context given to List or Watch.
package source
