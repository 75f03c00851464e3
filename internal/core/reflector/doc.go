// Package reflector keeps a store equal to the objects of a server. A [Reflector] lists, watches,
// resumes where a watch ended, and lists again when it cannot resume.
//
// A pure function, step, decides what to do next (step.go). Its arguments are the state and the
// last input. It returns the next state and the actions: a request, a wait, and calls of the sink.
// [Reflector.Run] drives it: Run makes the requests to a source.Source and writes the results to a
// Sink. For each kind of failure, testdata has a story with every decision of the reflector.
// docs/reflector.md has a diagram of the requests and their order.
//
// # Which request is made when
//
//	when                                    mode, server        request
//	the server's version is unknown         Auto                GET /version, once
//	the first list, and each later one      List; Auto, ≥ 1.33  LIST resourceVersion="", no limit
//	                                        Pages; Auto, older  LIST resourceVersion="" limit=PageSize, then its continue tokens
//	                                        Auto, GET /version  the same
//	                                        failed
//	                                        WatchList           WATCH resourceVersion="" sendInitialEvents
//	                                                            match=NotOlderThan allowWatchBookmarks
//	a list with Consistency Any             all                 as above with resourceVersion="0", or the store's version with
//	                                                            match=NotOlderThan
//	a list that may state its version       all                 LIST match=NotOlderThan resourceVersion=the store's version. If the list must
//	after its items, and the store has                          be consistent: the server's newest version, after a probe for it
//	objects
//	a list is complete                      all                 WATCH from the list's resourceVersion, allowWatchBookmarks,
//	                                                            timeoutSeconds random in [WatchTimeout, 2·WatchTimeout)
//	initial events are complete             WatchList           none: the same watch continues
//	a watch ends, or breaks off idle        all                 WATCH from the last event or bookmark, immediately. A watch that ended within
//	                                                            a second and sent nothing has failed: WATCH after a wait
//	... before its timeout                  all                 the same, and a probe if the new watch sends nothing within a second
//	... repeatedly, and watches sent        all                 the same with timeoutSeconds=3, so that the server sends a bookmark soon. If
//	nothing for 90 s                                            none arrives, and a probe finds a newer version, this counts like the next line
//	a watch sends nothing for 90 s          all                 a probe beside the open watch. If the server has a newer version: WATCH again;
//	                                                            if the server does not answer: a consistent list after a wait
//	another reflector of the same store     all                 the watch is broken off; a consistent list after a wait
//	or server finds that it went back
//	three watches in a row without an       all                 a probe, then WATCH again. After twelve such watches (four that hung): a list,
//	answer, or one that hung for 10 s                           and if it fails WATCH. After the first one, a watch that was open for 30 s, sent
//	                                                            nothing and broke off counts as three
//	410 on a watch, as answer or event      all                 a consistent list: immediately, but after a wait if repeated
//	504 ResourceVersionTooLarge, or a       all                 a probe for whether the server has reached the store's version; see below
//	server older than the store
//	initial events without their bookmark   WatchList           as Auto from then on
//	... that end or break off               WatchList           the same after a wait; after three tries one LIST
//	initial events refused (4xx, 5xx)       WatchList           as Auto from then on
//	... with 410                            WatchList           a consistent list after a wait: one LIST, or initial events if the request had
//	                                                            resourceVersion="0"
//	a page fails                            Pages               the same page after a wait: the pages before it remain valid. After three
//	                                                            failed answers, or six failures: the whole list in one answer
//	410 on a page                           Pages               one consistent list without a limit
//	a list fails twice in a row             all                 a list in the other form, paged or whole
//	400, 401, 403, 422, 5xx                 all                 the same request after a wait; see below
//	405 on a watch, or a ninth 404 on a     all                 a list after a wait, at client-go's pace
//	watch of a resource that still lists
//	404                                     all                 a list after a wait. It is consistent if the server refused more than one watch:
//	                                                            the resource may then be a different one
//	429                                     all                 the same request after a wait
//
// A probe is a LIST with limit=1 that is sent only for its resourceVersion ([source.Source]'s
// NewestVersion).
//
// A list without a limit costs little on a server that streams its encoding, and needs no second
// round trip. An older server builds the whole answer in memory, so the reflector asks it for
// pages. Initial events cost the server more than a list. They are for servers whose operators have
// enabled them on purpose.
//
// A 410 in the middle of pages contains a token for the rest of the objects at the current
// revision. The reflector does not use it: the first part of the list would be at one revision and
// the rest at another, and no watch could start at the first revision, since it is gone. One list
// without pages cannot expire while it is read. The store recognizes the objects that it already
// has by their resourceVersion, and skips them.
//
// # A request that keeps failing becomes a LIST
//
// The reflector repeats a failed request in the same form only a bounded number of times, for any
// failure. It lists the state after:
//
//   - three failed answers in a row, not counting 429;
//   - three answered probes while the watch was not answered;
//   - twelve failures of any kind, not counting 429 and requests without an answer;
//   - three periods of 90 s in which watches sent nothing, while probes found a newer version;
//   - the time of ten watches that sent nothing, not even a bookmark, see below;
//   - three minutes in which such watches were open while no probe was answered.
//
// A watch that was accepted and then ended, or broke off between two events, is no failure: the
// server may end it at its timeout, or a proxy may end idle streams sooner. It is a failure if it
// ends within a second, or within half of a shorter Config.WatchTimeout, and sends nothing.
//
// But a network may lose the events of several watches in a row, and none of these watches is
// silent for 90 s if each ends sooner. A probe does not distinguish this from a quiet resource of a
// busy server: in both cases the server has a newer version. So once watches were silent for 90 s
// in total, the next watch asks for timeoutSeconds=3. The server sends a bookmark two seconds
// before the end of a watch, which is early enough for most proxies. If the bookmark arrives,
// watches work and the store is current. If it does not, the 90 s start again. When a probe has
// found a newer version in three such periods, the reflector lists, as it does after three silent
// watches. The probe beside any watch of a period counts, because the short watch may end before
// its own probe is answered.
//
// If probes find nothing newer, or are answered with 429, the reflector assumes that it has missed
// nothing. Then it lists when watches have sent nothing for ten times Config.WatchTimeout, and for
// at least 50 minutes.
//
// After errors the first such list must only be not older than the store, even if the Config asks
// for a consistent first state: all clients of a starting server need such a list, and its watch
// cache can answer it. The next such lists are consistent until a watch sends something newer,
// however long watches stay open in between. A list that replaces a silent watch is always
// consistent.
//
// If a list that replaces a watch fails as well, the reflector watches next. It requests lists that
// fail in all forms: whole and in pages, each with "not older than" the store and consistent. So no
// state stays stale forever if any form of request would correct it.
//
// A server before 1.19 does not support the condition "not older than". In pages it answers with
// exactly the requested resourceVersion, or with 410 if that version is compacted. After the 410,
// or after three lists of exactly the store's version, the next list is without the condition. A
// first state stays consistent if the Config requires it.
//
// # A server that is behind
//
// A resourceVersion lower than the store's comes from a replica that lags, or from a server that
// was restored from a backup. The reflector must not use the state of a replica that lags: objects
// that were deleted since would come back. So it sends a probe that must not be older than the
// store, to learn whether the server has reached the store's version. There are two outcomes:
//
//   - A replica answers. Most likely one replica lagged. But a restored server may have reached
//     that resourceVersion a second time, so the reflector waits and then lists. The wait is longer
//     only if this has happened before.
//   - The server answers twice that the version lies in its future (504 ResourceVersionTooLarge),
//     and its consistent answers in between do not go down. Then the server has gone back in time.
//     The reflector reports [ErrWentBack] and replaces the store's state with the server's. It does
//     the same if the server's answers never agree, or if it does not report its newest version.
//
// Both answers together take six seconds or more. So the reflector takes a cache that lags for
// longer, and answers consistent lists from its own state, for a restored server.
//
// A server that has reached the version may refuse a state that must be no older than it. Then it
// has a watch cache that no longer advances, or its etcd reports no progress. After twenty refusals
// the list is without the condition.
//
// A restored server may reach a reflector's version again before that reflector asks. Then nothing
// shows the reflector which changes were lost. So when one reflector finds that a server went back,
// all other reflectors of the same store, or of the same [Server], list again. Each of them lists
// once for each restore, unless it has found the restore itself. Their lists follow a wait and are
// spread at random, over 50 ms per reflector. A reflector that starts later is not affected.
//
// ResourceVersions that are no integers cannot be compared. Such a version that differs from the
// store's proves nothing: a ListerWatcher may join the versions of several lists, and these change
// with any other resource. So no probe follows a watch that ends. A probe follows only when watches
// have sent nothing for 90 s in total. After three answers that differ from the store's version the
// reflector lists, as it does for a silent watch whose versions are integers. If exactly one of the
// two versions is an integer, the server is a different one. The reflector always accepts lists
// whose versions are no integers.
//
// # Errors
//
// No error or answer of a server ends a reflector; see [Reflector.Run]. [Status].Err says why the
// reflector is not current, from the first answer that shows it. It is an [*Error] in which
// errors.Is finds this package's sentinels. The error of watches that get no answer stays in
// Status.Err while lists succeed. Config.OnStatus is called at each transition.
//
// Waits grow from 0.8 s to 30 s; see [Backoff]. They grow only to 5 s for failures that an
// administrator may correct soon (401, 403, 404). A resource that existed before may come back
// soon, for example a version of a custom resource that is disabled and enabled again. So the first
// 404 answers do not slow the pace, neither of the request that they answer nor of other requests
// that fail next. This applies to a hundred 404 answers, of which eight may answer a watch. They
// are 0.4 to 0.8 s apart. The reflector asks at most 2.5 times a second for about a minute, and
// then once in 2.5 s or less often. During that minute it is current within 2 s of the resource's
// return. Lists that replace a refused watch become slower, by their size, down to one in 30 s.
//
// The reflector clears its failure counts when watches have been open for [Backoff].Healthy since
// the last failure. It clears the counts that set the pace of watches when one watch has ended
// normally.
//
// An object that cannot be read does not stop the others. The reflector skips it and counts it in
// Status.Skipped. Status.Err is its error unless there is a more serious one. If a watch sent the
// object, the reflector lists once. If that list cannot read the object either, no other list
// follows.
//
// The reflector reads only the metadata of an object that Config.Keep does not want. The object's
// resourceVersion counts like any other's, so a watch resumes after it.
//
// Status.Heard is when the reflector last received something from the server, and Status.CurrentAt
// is when the store was last shown to have the server's state. A server sends a bookmark on every
// open watch at least every 90 s. If a watch is silent for that long, and the server does not
// answer a probe, Status.Err is [ErrSilent].
//
// # Bounds
//
// A reflector has one goroutine, that of Run, and makes one request at a time. While a watch is
// silent, there is also at most one probe, which ends with the watch. A probe waits 10 s for its
// answer. That limit doubles each time it was too short. When an answer arrives, or a list starts,
// the limit becomes twice the time that this took. It is at most a minute.
//
// Of the reflectors that share a [Server], at most 8 list at the same time ([Config.MaxLists]).
// Lists start in the order in which they were requested. A list waits until another one has ended
// or has received nothing for 10 s, or for less while many lists receive nothing. A reflector whose
// last list received nothing waits behind the others. So a server that hangs for a hundred
// resources delays the others by half a minute at the start, and then by a second. A list gives its
// place away when it ends or fails, but not between its pages.
//
// The reflector writes each event to the store when it arrives. Events become visible before each
// wait for the network. A timer ends a watch whose initial events stop arriving; the reflector
// stops the timer when the request ends. There is no queue, and no reader of the store can block
// the reflector. Only a handler that is running and has fallen behind slows it, to a little less
// than the handler's pace (throttle.go).
package reflector
