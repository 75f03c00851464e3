// Package reflector keeps a store equal to the objects of a server. A [Reflector] lists, watches,
// resumes where a watch ended, and lists again when it cannot resume.
//
// A pure function, step, decides what to do next (step.go). Its arguments are the state and the
// last input, for example a response. It returns the next state and the actions: a request, a wait,
// and calls of the sink. [Reflector.Run] executes the actions: it sends the requests to a
// source.Source and writes the results to a Sink. For each kind of failure, testdata contains a
// story, a log with every decision of the reflector. docs/explanation/reflector.md contains
// a diagram of the requests and their order.
//
// In this package, the answer to a request is its response, also if the response is an error.
//
// # Which request follows
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
//	a watch ends, or breaks off while idle  all                 WATCH from the last event or bookmark, immediately. A watch that ended within
//	                                                            a second and sent nothing has failed: WATCH after a wait
//	... before its timeout                  all                 the same, and a probe if the new watch sends nothing within a second
//	... repeatedly, and watches sent        all                 the same with timeoutSeconds=3, so that the server sends a bookmark soon. If
//	nothing for 90 s                                            none arrives, and a probe finds a newer version: as in the next line
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
// A probe is a LIST with limit=1 whose only purpose is its resourceVersion ([source.Source]'s
// NewestVersion).
//
// A server since 1.33 encodes a list while it sends it, so a list without a limit costs it little
// and needs only one round trip. An older server builds the whole answer in memory, so the
// reflector requests pages from it. Initial events cost a server more than a list, so the reflector
// requests them only if the Config does.
//
// A 410 in the middle of pages contains a token for the rest of the objects at the current
// revision. The reflector does not use the token: the first part of the list would be at one
// revision and the rest at another. No watch could start at the first revision, because the server
// has compacted it. A list without pages cannot expire while it is read. The store skips an object
// of the list that it already has at the same resourceVersion.
//
// # A request that keeps failing becomes a LIST
//
// For each kind of failure, the reflector repeats a failed request in the same form only a limited
// number of times. It sends a LIST instead after any of these:
//
//   - three error responses in a row, not counting 429;
//   - three probes with an answer while the watch got none;
//   - twelve failures of any kind, not counting 429 and requests without an answer;
//   - three periods of 90 s in which watches sent nothing, while probes found a newer version;
//   - ten times the watch timeout in which watches sent neither events nor bookmarks, see below;
//   - three minutes in which watches sent nothing and no probe got an answer.
//
// It is no failure if a watch that was accepted ends between two events: the server may end it at
// its timeout, or a proxy may end idle streams sooner. But it is a failure if the watch sends
// nothing and ends within a second, or within half of Config.WatchTimeout if that is shorter.
//
// A network may lose the events of several watches in a row. If each of these watches ends within
// 90 s, none of them counts as silent. With probes alone, the reflector cannot distinguish lost
// events from a resource that does not change on a busy server: in both cases the server has a
// newer version. So after watches were silent for 90 s in total, the next watch has
// timeoutSeconds=3. The server sends a bookmark two seconds before the end of a watch, before most
// proxies end an idle stream. If the bookmark arrives, watches work and the store is current. If
// the bookmark does not arrive, another period of 90 s starts. After three periods in which a probe
// found a newer version, the reflector lists, as it does after three silent watches. The probes of
// all watches of a period count, because the short watch may end before its own probe has an
// answer.
//
// If probes find nothing newer, or their answer is 429, the reflector assumes that it has missed
// nothing. It then lists only after watches have sent nothing for ten times Config.WatchTimeout,
// and at least 50 minutes.
//
// After errors, the first list that replaces failing requests has only the condition "not older
// than the store", even if the Config requires a consistent first state. When a server starts, all
// its clients need such a list, and the server can answer it from its watch cache. The following
// lists are consistent, until a watch has sent something newer. A list that replaces a silent watch
// is always consistent.
//
// If a list that replaces a watch fails as well, the reflector watches next. While lists fail, it
// tries all their forms: whole and in pages, each consistent and with "not older than the store".
// So the store does not stay stale if any form of request succeeds.
//
// A server before 1.19 does not support the condition "not older than". If a request for pages has
// the condition, the server sends the state at exactly that resourceVersion, or a 410 if that
// version is compacted. After the 410, or after three lists at exactly the store's version, the
// next list is consistent instead. A first state remains consistent if the Config requires it.
//
// # A server that is behind
//
// If a server sends a resourceVersion lower than the store's, it is a replica that lags, or it was
// restored from a backup. The reflector must not store the state of a replica that lags, because
// the state contains objects that were deleted later. So it sends a probe with the condition "not
// older than the store", to learn whether the server has reached the store's version. There are two
// outcomes:
//
//   - The answer is a version that is not older. Most likely, one replica lagged. But a restored
//     server may have reached that resourceVersion a second time, so the reflector waits and then
//     lists. The wait becomes longer if this happens repeatedly.
//   - The answer is twice 504 ResourceVersionTooLarge, and the versions that the server reports in
//     between do not become lower. Then the server has gone back in time. The reflector reports
//     [ErrWentBack] and replaces the store's state with the server's. It does the same if the
//     server's answers contradict each other for too long, or if the server does not report its
//     newest version.
//
// The two answers take six seconds or more. If a cache lags for longer, and serves consistent lists
// from its own state, the reflector treats it like a restored server.
//
// A server that has reached the version may still answer 504 to lists with the condition "not older
// than the store". The reason is that its watch cache no longer advances, or that its etcd reports
// no progress. After twenty such answers the reflector lists without the condition.
//
// A restored server may reach a reflector's version a second time before the reflector sends a
// request. Then the reflector cannot see that changes were lost. So when one reflector finds that a
// server went back, all other reflectors of the same store, or of the same [Server], list again.
// Each of these reflectors lists once per restore, unless it has found the restore itself. Before
// the list it waits as after a failure, and then for a random time, up to 50 ms times the number of
// reflectors. A reflector that starts later does not list again.
//
// ResourceVersions that are not integers cannot be compared. If such a version differs from the
// store's, that proves nothing: a ListerWatcher may join the resourceVersions of several lists, and
// each of these changes also when objects of other resources change. So the reflector sends no
// probe when a watch has ended, but only after watches have sent nothing for 90 s in total. After
// three answers that differ from the store's version it lists, as it does for a silent watch whose
// versions are integers. If exactly one of the two versions is an integer, the server is a
// different one. The reflector always accepts a list whose version is not an integer.
//
// # Errors
//
// No error of a server ends a reflector; see [Reflector.Run]. [Status].Err says why the reflector
// is not current. It is an [*Error] in which errors.Is finds this package's sentinels. While
// watches get no answer, Status.Err contains their error, even if lists succeed. Config.OnStatus
// receives each new error.
//
// Waits grow from 0.8 s to 30 s; see [Backoff]. They grow only to 5 s for failures that an
// administrator may correct soon (401, 403, 404). A resource that existed before may return soon,
// for example when a version of a custom resource is disabled and enabled again. So the first
// hundred 404 answers do not lengthen the waits, neither for the request that got the 404 nor for
// other requests that fail next. At most eight of these hundred answers may be answers to watches.
// The waits between them are 0.4 to 0.8 s. So the reflector sends at most 2.5 requests per second
// for about a minute, and then at most one request in 2.5 s. During that minute, the store is
// current within 2 s of the resource's return. Lists that replace a refused watch become less
// frequent, depending on their size, down to one in 30 s.
//
// The reflector clears all its failure counts when watches have been open for [Backoff].Healthy
// since the last failure. When one watch has ended normally, it clears the counts that lengthen the
// waits before watches.
//
// If an object cannot be decoded, the reflector skips it, counts it in Status.Skipped, and
// continues with the next one. Status.Err is the error of that object, unless there is a more
// serious error. If a watch sent the object, the reflector lists once. If it cannot decode the
// object in that list either, no other list follows.
//
// If Config.Keep returns false for an object, the reflector reads only the object's metadata.
// Watches also resume at the resourceVersion of such an object.
//
// Status.Heard is when the reflector last received something from the server. Status.CurrentAt is
// the last time for which the store is known to be current. A server sends a bookmark on every open
// watch at least every 90 s. If a watch is silent for that long, and a probe fails, Status.Err is
// [ErrSilent].
//
// # Bounds
//
// A reflector has one goroutine, that of Run, and sends one request at a time. While a watch is
// silent, it also sends at most one probe at a time, which ends with the watch. A probe waits 10 s
// for its answer. If no answer arrives in that time, the limit doubles. When an answer to a probe
// arrives, or a list starts to arrive, the limit becomes twice the time that this took. It is
// always between 10 s and a minute.
//
// Of the reflectors that share a [Server], at most [Config.MaxLists] list at the same time, 8 by
// default. Lists start in the order in which they were requested, when another list ends or fails,
// but not between its pages. A list that has received nothing for 10 s no longer counts. If many
// lists receive nothing, this time becomes shorter. A reflector whose last list received nothing
// waits behind the other reflectors. So a server that hangs for a hundred resources delays the
// lists of other resources by half a minute at the start, and later by a second.
//
// The reflector writes each event to the store when it arrives. Events become visible to readers
// before each wait for the network. A timer ends a watch whose initial events stop arriving; the
// reflector stops the timer when the request ends. There is no queue, and no reader of the store
// can block the reflector. Only a handler that runs and has fallen behind slows the reflector, to a
// little less than the handler's speed (throttle.go).
package reflector
