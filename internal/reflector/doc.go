// Package reflector keeps a store equal to what a server has: it lists, watches, resumes where a
// watch ended, and lists again when it cannot.
//
// What to do next is decided by a pure function (step.go): what happened, and what is known, give
// what to ask for and what to do with the store. testdata has a story for each thing that happens
// to informers, with all that is decided in it. [Reflector.Run] is the driver: it makes the
// requests of a source.Source and puts what comes into a store.Writer.
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
//	a list whose resourceVersion stands     all                 LIST resourceVersion=what is held match=NotOlderThan
//	behind the items, where something is held
//	a list is complete                      all                 WATCH from the list's resourceVersion, allowWatchBookmarks,
//	                                                            timeoutSeconds random in [WatchTimeout, 2·WatchTimeout)
//	initial events are complete             WatchList           none: the same watch goes on
//	a watch ends, or breaks off             all                 WATCH from the last event or bookmark: at once where it brought
//	                                                            something, else after a wait
//	... before its time                     all                 the same, and a probe if it brings nothing within a second
//	a watch brings nothing for 90 s         all                 a probe while it is open; if the server goes on or does not answer, the
//	                                                            watch is begun anew
//	another reflector of the same store,    all                 the watch is broken off, and a consistent list follows after a wait
//	or server, finds that it went back
//	three watches in a row without answer,  all                 a probe; whatever comes of it, the watch again. After twelve of them (four) a
//	or one that is waited for in vain                           list, and if that fails the watch
//	410 on a watch, as answer or event      all                 a consistent list: at once, if again after a wait, whatever else failed before
//	504 ResourceVersionTooLarge, or a       all                 the server is asked whether it has reached what is held; see below
//	server older than what is held
//	initial events without their bookmark   WatchList           as Auto from then on
//	initial events refused (4xx, 5xx)       WatchList           as Auto from then on
//	... with 410, though none was asked for WatchList           a consistent list this once, after a wait
//	a page fails                            Pages               the same page after a wait, three times: those before it are good
//	410 on a page                           Pages               one consistent list without a limit
//	a list fails twice in a row             all                 in the other form, in pages or whole
//	400, 401, 403, 422, 5xx                 all                 the same again after a wait; see below
//	404, 405                                all                 a consistent list after a wait: what is there then may be another resource
//	429                                     all                 the same again after a wait
//
// A probe is a LIST with limit=1 of which only the resourceVersion is wanted ([source.Source]'s
// NewestVersion).
//
// # Whatever keeps failing becomes a LIST
//
// A request that failed is made again a bounded number of times in the way that failed, whatever
// the failure was: after three answers in a row that brought nothing, 429 aside, after three probes
// that were answered while the watch was not, after twelve failures of any kind together, and after
// ten watches that stood and brought nothing, not even a bookmark, the state is listed. A list that
// stands in for a watch and fails as well is followed by the watch. So no state is stale for good
// where there is a request that would mend it.
//
// # A server that is behind
//
// A resourceVersion lower than what is held comes from a replica that lags, or from a server that
// was restored from a backup. Nothing of what a replica that lags tells may be taken: objects that
// were deleted since would come back. So the server is asked for a list not older than what is
// held. If any replica can answer that, its state is listed after a wait that is longer only where
// this has come before: most likely one lagged, but a restored server may have come to that
// resourceVersion a second time meanwhile. A server that says twice that it lies in its future (504
// ResourceVersionTooLarge), and whose consistent answers in between do not go down, has gone back
// in time: that is told as [ErrWentBack], and its state is taken as it is. Both take six seconds or
// more. So a cache that lags for longer, and answers consistent lists with what it has, is taken
// for a server that was restored.
//
// A server that was restored may have come to a reflector's version again before that one asks at
// all: then nothing shows it what was lost. So all reflectors of a store, and all that have the
// same [Server], list again when one of them has found a server that went back: each once for each
// restore, unless it has found the same itself. Their lists come after a wait, and are spread, at
// random, over 50 ms for each of them. A reflector that begins later finds nothing, and tells
// nobody.
//
// Where resourceVersions are no integers nothing can be compared. There an answer that is not what
// is held makes a list, which is taken as it is.
//
// The unlimited list costs a server that streams its encoding little, and needs no second round
// trip; the answer of an older server is all in its memory at once, so it is asked for pages.
// Initial events are the third way: they cost the server more than the list does, and are here for
// servers whose operators turned them on for a reason.
//
// A 410 in the middle of pages comes with a token for the rest of the objects as they are now. It
// is not used: the first part would be at one revision and the rest at another, and no watch could
// begin at the first one, since it is gone. One list without pages cannot expire on the way;
// objects that are already here are skipped by their resourceVersion.
//
// # Errors
//
// Nothing ends a reflector but its context. What stops it from being current is in [Status].Err at
// the first answer that says so, as an [*Error] that errors.Is finds this package's sentinels in.
// Config.OnStatus and [Reflector.Changed] tell of each transition. Waits grow from 0.8 s to 30 s,
// to 5 s for what somebody may put right at any moment (401, 403, 404); see [Backoff]. Where a
// resource was there before, as a version of a custom resource that is switched off and on, 404
// sets no slower pace at first, neither for itself nor for what fails next: a hundred answers, of
// which eight may be to a watch, come 0.4 to 0.8 s after each other. So a reflector asks 2.5 times
// a second at most, for a minute or so, then once in 2.5 s or less often, and is current within 2 s
// when the resource is back meanwhile.
//
// An object that cannot be read does not stop the others: it is skipped, Status.Skipped counts it,
// and Status.Err is its error as long as there is nothing worse. One that came by a watch makes a
// list, once; a list that cannot read it either is enough.
//
// An object that Config.Keep does not want is read no further than its metadata. Its
// resourceVersion counts as any other's, so that a watch is resumed behind it.
//
// Status.Heard tells when the server was heard last. Where nothing was heard on an open watch for
// 90 s, longer than a server leaves it without a bookmark, and the server does not answer a probe,
// Status.Err is [ErrSilent].
//
// # Bounds
//
// One goroutine, that of Run, and one request at a time, but for a probe while a watch is silent:
// one at a time, which ends with the watch. A probe is waited for for 10 s, and twice as long each
// time that this was not enough, or twice as long as the last list took to begin, up to a minute.
// Events are handed to the store as they come, and made visible before each wait for the network. A
// timer ends a watch whose initial events stop coming; it is stopped when the request ends. There
// is no queue: nobody who reads the store can hold the reflector up.
package reflector
