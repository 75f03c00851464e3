// Package source opens LIST and WATCH streams of one resource, and finds out which resources a
// server has ([Discovery]).
//
// A [Source] returns bodies that are cut into objects while they arrive (package wire). It never
// holds a whole LIST. [REST] is the source made from a rest.Config. [NewList] and [NewWatch] read
// any HTTP answer. With them, and with the Accept header of [Resource.Accept], another source can
// be built: that is how a client's own ListerWatcher is read when its transport is wrapped.
//
// # What a request carries
//
// The encoding is negotiated: protobuf with JSON as the fallback, or JSON alone; whole objects or
// only their metadata. The Content-Type of the answer decides how its body is read. A body without
// a Content-Type is JSON in a WATCH; in a LIST its first bytes decide. gzip is asked for explicitly
// where the body is long (LIST, and WATCH with initial events). The decompression of net/http is
// not used, because it does not count bytes and cannot read a member that is flushed before the
// stream ends.
//
// # Bounds
//
// A LIST is read in the goroutine that calls Next. It holds one read buffer and one object. A WATCH
// that came with an HTTP answer is also read ahead by one goroutine, into a ring of at most 256
// KiB. The goroutine starts with the first Next and ends with the stream.
//
// A LIST fails with [ErrStalled] after [Options.IdleTimeout] without a byte. A WATCH ends 30 s
// after the time at which the server was asked to end it; without such a time only the transport
// ends a dead one. An answer must start within [Options.HeaderTimeout]. Close, or the end of the
// context given to List or Watch, ends the request, the timers and the goroutine.
package source
