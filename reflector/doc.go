// Package reflector keeps a store equal to what a server has: it lists, watches, resumes where a watch ended, and lists
// again when it cannot.
//
// What to do next is decided by a pure function (step.go): what happened, and what is known, give what to ask for and
// what to do with the store. testdata has a story for each thing that happens to informers, with all that is
// decided in it. [Reflector.Run] is the driver: it makes the requests of a source.Source and puts what comes into a
// store.Writer.
//
// # Which request is made when
//
//	when                                    mode, server        request
//	nothing is known of the server          Auto                GET /version, once
//	the first list, and each one anew       List; Auto, ≥ 1.33  LIST resourceVersion="", no limit
//	                                        Pages; Auto, older  LIST resourceVersion="" limit=PageSize, then its tokens
//	                                        Auto, version       the same
//	                                        unknown
//	                                        WatchList           WATCH resourceVersion="" sendInitialEvents
//	                                                            match=NotOlderThan allowWatchBookmarks
//	the same, Consistency Any               List, Pages         LIST resourceVersion="0", or what is held with
//	                                                            match=NotOlderThan
//	a list is complete                      all                 WATCH from the list's resourceVersion, allowWatchBookmarks,
//	                                                            timeoutSeconds random in [WatchTimeout, 2·WatchTimeout)
//	initial events are complete             WatchList           none: the same watch goes on
//	a watch ends                            all                 WATCH from the last event or bookmark
//	... that brought no event or bookmark   all                 the same after a wait; after three in a row a consistent list
//	a watch breaks off, the server          all                 LIST resourceVersion="" limit=1, to see whether it went
//	cannot be reached                                           back in time; then WATCH from the last event or bookmark
//	410 on a watch, as answer or event      all                 a consistent list: at once, if again at once after a wait
//	504 ResourceVersionTooLarge             all                 a consistent list after Retry-After, or 1 s
//	initial events without their bookmark   WatchList           as Auto from then on
//	initial events refused (4xx, 5xx)       WatchList           as Auto from then on
//	... with 410, though none was asked for WatchList           a consistent list this once, after a wait
//	a page fails                            Pages               the same page after a wait: those before it are good
//	410 on a page                           Pages               one consistent list without a limit
//	a list breaks off                       List, WatchList     the same again after a wait; what came is kept
//	... twice in a row                      List                in pages, since the way may be too slow for one answer
//	a list older than what is held          all, Any            a consistent list at once; nothing of it is taken
//	                                        all, consistent     it is taken as it is, and reported as ErrWentBack
//	400, 401, 403, 404, 422, 429, 5xx       all                 the same again after a wait
//
// The unlimited list costs a server that streams its encoding little, and needs no second round trip; the answer of an
// older server is all in its memory at once, so it is asked for pages. Initial events are the third way: they cost
// the server more than the list does, and are here for servers whose operators turned them on for a reason.
//
// A 410 in the middle of pages comes with a token for the rest of the objects as they are now. It is not used: the first
// part would be at one revision and the rest at another, and no watch could begin at the first one, since it is gone. One list
// without pages cannot expire on the way; objects that are already here are skipped by their resourceVersion.
//
// # Errors
//
// Nothing ends a reflector but its context. What stops it from being current is in [Status].Err at the first answer that
// says so, as an [*Error] that errors.Is finds this package's sentinels in. Config.OnStatus and [Reflector.Changed] tell of
// each transition. Waits grow from 0.8 s to 30 s, to 5 s for what somebody may put right at any moment (401, 403, 404); see
// [Backoff].
//
// An object that cannot be read does not stop the others: it is skipped, and Status.Skipped counts it.
//
// # Bounds
//
// One goroutine, that of Run, and one request at a time. Events are handed to the store as they come, and made visible
// before each wait for the network. A timer ends a watch whose initial events stop coming; it is stopped when the request
// ends. There is no queue: nobody who reads the store can hold the reflector up.
package reflector
