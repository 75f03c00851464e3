// Package source opens LIST and WATCH streams of one resource, and requests the list of a server's
// resources ([Discovery]).
//
// A [Source] returns streams of objects: package wire splits a body into objects while the body
// arrives. A Source never stores a whole LIST. [REST] is the Source for a rest.Config. [NewList]
// and [NewWatch] read any HTTP answer. Together with the Accept header of [Resource.Accept] they
// suffice to build another Source: Weir reads a client's own ListerWatcher this way, by wrapping
// its transport.
//
// # What a request carries
//
// A request asks for an encoding (protobuf with JSON as the fallback, or JSON only), and for whole
// objects or only their metadata. The Content-Type of the answer decides how its body is read. A
// WATCH without a Content-Type is read as JSON; the encoding of a LIST without one is guessed from
// its first bytes. A request asks for gzip if the body is long: for a LIST, and for a WATCH with
// initial events. This package decompresses the body itself, because the decompression of net/http
// does not count bytes and cannot read a gzip member that is flushed before the stream ends.
//
// # Bounds
//
// A LIST is read in the goroutine that calls Next. It uses one read buffer with one object in it. A
// WATCH over HTTP is also read ahead by one goroutine, into a ring of at most 256 KiB. The
// goroutine starts with the first Next and ends with the stream.
//
// A LIST fails with [ErrStalled] if it receives no byte for [Options.IdleTimeout]. A WATCH fails 30
// s after the timeout that its request sent to the server. If the request had no timeout, only the
// transport ends a dead connection. An answer must start within [Options.HeaderTimeout]. Close, or
// the end of the context given to List or Watch, ends the request, the timers and the goroutine.
package source
