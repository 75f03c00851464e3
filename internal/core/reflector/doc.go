// Package reflector keeps a store equal to what a server has. A [Reflector] lists, watches, resumes
// where a watch ended, and lists again when it cannot resume.
//
// A pure function decides what to do next (step.go). It takes what is known and what has happened.
// It returns what is known then, what to ask for, and what to do with the sink. [Reflector.Run]
// drives it: Run makes the requests of a source.Source and writes the results to a Sink.
// testdata has a story for each thing that happens to informers, with every decision in it.
// docs/reflector.md has a diagram of its requests and of what leads from one to the next.
//
// # Which request is made when
//
//	when                                    mode, server        request
//	nothing is known of the server          Auto                GET /version, once
//	the first list, and each next one       List; Auto, ≥ 1.33  LIST resourceVersion="", no limit
//	                                        Pages; Auto, older  LIST resourceVersion="" limit=PageSize, then its tokens
//	                                        Auto, version       the same
//	                                        unknown
//	                                        WatchList           WATCH resourceVersion="" sendInitialEvents
//	                                                            match=NotOlderThan allowWatchBookmarks
//	the same, Consistency Any               all                 with resourceVersion="0", or the store's with
//	                                                            match=NotOlderThan
//	a list whose resourceVersion stands     all                 LIST match=NotOlderThan resourceVersion=the store's, or the
//	behind the items, where the store has                       server's newest, which is asked for before, if the list must be
//	objects                                                     consistent
//	a list is complete                      all                 WATCH from the list's resourceVersion, allowWatchBookmarks,
//	                                                            timeoutSeconds random in [WatchTimeout, 2·WatchTimeout)
//	initial events are complete             WatchList           none: the same watch goes on
//	a watch ends, or breaks off idle        all                 WATCH from the last event or bookmark: immediately. One that brought
//	                                                            nothing within a second has failed: after a wait
//	... before its time                     all                 the same, and a probe if it brings nothing within a second
//	... again and again, and nothing is     all                 the same with timeoutSeconds=3, so that the server sends a bookmark soon. If
//	heard for 90 s                                              none is received, and a probe finds a newer version, this counts like the next line
//	a watch brings nothing for 90 s         all                 a probe while it is open. If the server goes on the watch is begun again;
//	                                                            if it does not answer, a consistent list follows after a wait
//	another reflector of the same store,    all                 the watch is broken off, and a consistent list follows after a wait
//	or server, finds that it went back
//	three watches in a row without answer,  all                 a probe, and then the watch again. After twelve of them (four) a
//	or one that is waited for in vain                           list, and if that fails the watch. Those after the first that stand
//	                                                            for 30 s with nothing and break off count threefold
//	410 on a watch, as answer or event      all                 a consistent list: immediately, if again after a wait
//	504 ResourceVersionTooLarge, or a       all                 the server is asked whether it has reached the store's version; see below
//	server older than the store
//	initial events without their bookmark   WatchList           as Auto from then on
//	... that end or break off               WatchList           the same again after a wait; after three tries a LIST this once
//	initial events refused (4xx, 5xx)       WatchList           as Auto from then on
//	... with 410                            WatchList           a consistent list after a wait: a LIST this once, or initial events
//	                                                            where "0" was asked for
//	a page fails                            Pages               the same page after a wait: those before it are good. After three answers
//	                                                            that brought nothing, or six failures, all of it in one answer
//	410 on a page                           Pages               one consistent list without a limit
//	a list fails twice in a row             all                 in the other form, in pages or whole
//	400, 401, 403, 422, 5xx                 all                 the same again after a wait; see below
//	405 on a watch, and 404 where lists     all                 a list after a wait, at client-go's pace
//	are answered, from the ninth on
//	404                                     all                 a list after a wait, and a consistent one if a watch was refused more than
//	                                                            once: what is there then may be another resource
//	429                                     all                 the same again after a wait
//
// A probe is a LIST with limit=1 of which only the resourceVersion is wanted ([source.Source]'s
// NewestVersion).
//
// A list without a limit costs little on a server that streams its encoding, and needs no second
// round trip. An older server holds the whole answer in memory at once, so it is asked for pages.
// Initial events cost the server more than a list does. They are for servers whose operators turned
// them on for a reason.
//
// A 410 in the middle of pages comes with a token for the rest of the objects as they are now. The
// reflector does not use it: the first part would be at one revision and the rest at another. No
// watch could begin at the first revision, since it is gone. One list without pages cannot expire
// on the way. Its objects that are already held are skipped by their resourceVersion.
//
// # A request that keeps failing becomes a LIST
//
// A request that failed is repeated in the same form only a bounded number of times, for any
// failure. The reflector lists the state after:
//
//   - three answers in a row that brought nothing, 429 aside;
//   - three answered probes while the watch was not answered;
//   - twelve failures of any kind together, 429 and requests without an answer aside;
//   - three times 90 s in which watches brought nothing, while probes found a newer version;
//   - the time of ten watches that brought nothing, not even a bookmark, see below;
//   - three minutes in which such watches stood while no probe was answered.
//
// A watch that was accepted and then ended, or broke off between two events, is no failure, whether
// the server ends it at its time or a proxy ends idle streams sooner. The exception is one that
// ends within a second, or within half of a shorter Config.WatchTimeout, and brings nothing.
//
// But a network may swallow the events of one watch after the other, and none of them is silent for
// 90 s if each ends sooner. A probe does not tell that from a quiet resource of a busy server: both
// have a newer version. So once nothing was heard on watches for 90 s together, the next watch asks
// for timeoutSeconds=3. The server sends a bookmark two seconds before the end of a watch, which is
// soon enough for most proxies. If it is received, the watches work, and the store is current. If
// not, the 90 s begin again. The third time that a probe has found a newer version meanwhile the
// state is listed, as after three silent watches. The probe beside any of these watches counts: a
// short one may end before its probe is answered.
//
// Where probes find nothing newer, or are answered with 429, nothing was missed as far as the
// reflector knows. Then ten times Config.WatchTimeout, 50 minutes at least, is the time of watches
// that bring nothing before the state is listed.
//
// After errors the first such list is one not older than the store, also where the Config asks for
// a consistent first state: all clients of a server that is starting need one, and its watch cache
// can answer them. Until a watch brings something newer the next ones are consistent, however long
// watches stand in between, and so is each that replaces a silent watch.
//
// If a list that stands in for a watch fails as well, the watch comes next. Lists that fail are
// asked for whole and in pages, and each of these "not older than" the store and consistent. So
// no state stays stale for good where some request would mend it.
//
// A server before 1.19 does not know the condition. In pages it answers with exactly the
// resourceVersion, or with 410 when that is compacted. The list that follows the 410, or three of
// exactly the store's version, is without the condition. A first state stays consistent where the
// Config says so.
//
// # A server that is behind
//
// A resourceVersion lower than the store's comes from a replica that lags, or from a server that
// was restored from a backup. Nothing that a lagging replica tells may be taken: objects that were
// deleted since would come back. So the reflector asks, with a probe that must not be older than
// the store, whether the server has come so far. There are two outcomes:
//
//   - A replica can answer. Most likely one replica lagged. But a restored server may have come to
//     that resourceVersion a second time meanwhile, so the state is listed after a wait. The wait
//     is longer only where this has come before.
//   - The server says twice that it lies in its future (504 ResourceVersionTooLarge), and its
//     consistent answers in between do not go down. Then the server has gone back in time. The
//     reflector reports [ErrWentBack] and takes the state as it is.
//
// Both answers together take six seconds or more. So a cache that lags for longer, and answers
// consistent lists with what it has, is taken for a restored server.
//
// A server that has come so far, and refuses a state that must be no older than that all the same,
// has a watch cache that stands still, or its etcd reports no progress. After twenty refusals
// the list is without the condition.
//
// A restored server may reach a reflector's version again before that reflector asks. Then nothing
// shows the reflector what was lost. So when one reflector finds that a server went back, all
// others of the same store, and all that have the same [Server], list again. Each lists once for
// each restore, unless it has found the same itself. Their lists come after a wait and are spread,
// at random, over 50 ms for each of them. A reflector that begins later finds nothing, and
// reports nothing.
//
// ResourceVersions that are no integers cannot be compared. Such a version that differs from the
// store's says nothing: a ListerWatcher may join the versions of several lists, and these change
// with any other resource. So no probe follows a watch that ends. One follows once nothing was
// heard for 90 s, over several watches if need be, and three answers that differ make a list, as
// they do of a silent watch whose versions are integers. If the store's is an integer and the
// answer is none, or the other way round, the server is another one. Lists of such versions are
// taken as they are.
//
// # Errors
//
// Nothing that a server does ends a reflector; see [Reflector.Run]. What stops it from being
// current is in [Status].Err at the first answer that says so. It is an [*Error] in which errors.Is
// finds this package's sentinels. What stands in the way of watches that get no answer stays there
// while lists come. Config.OnStatus tells of each transition.
//
// Waits grow from 0.8 s to 30 s; see [Backoff]. They grow to 5 s only for what may be put
// right at any moment (401, 403, 404). A resource that was there before may come back soon, as a
// version of a custom resource does that is switched off and on. So 404 sets no slower pace at
// first, neither for itself nor for what fails next. A hundred such answers, of which eight may be
// to a watch, come 0.4 to 0.8 s after each other. The reflector asks 2.5 times a second at most,
// for a minute or so, and then once in 2.5 s or less often. It is current within 2 s of the
// resource's return in that time. Lists that take the place of a refused watch come more and more
// slowly, as their size asks for, up to 30 s.
//
// The failures before are forgotten once watches have stood for [Backoff].Healthy since the last
// one, and those that set the pace of watches once one watch has ended well.
//
// An object that cannot be read does not stop the others. It is skipped, and Status.Skipped counts
// it. Status.Err is its error as long as there is nothing worse. If it came by a watch, it makes
// one list. If that list cannot read it either, no other list follows.
//
// An object that Config.Keep does not want is read no further than its metadata. Its
// resourceVersion counts like any other's, so that a watch resumes behind it.
//
// Status.Heard is when the server was heard last, and Status.CurrentAt when the store was shown
// to have its state. A server leaves no open watch without a bookmark for 90 s. If nothing is heard
// on one for that long, and the server does not answer a probe, Status.Err is [ErrSilent].
//
// # Bounds
//
// A reflector has one goroutine, that of Run, and makes one request at a time. While a watch is
// silent, there is also one probe at a time; it ends with the watch. A probe waits 10 s for its
// answer. The wait doubles each time that it was not enough, or becomes twice the time that the
// last list took to begin, up to a minute.
//
// Of the reflectors that share a [Server] no more than 8 list at a time ([Config.MaxLists]). A list
// waits, in the order in which they were asked for, until another one has ended or has brought
// nothing for 10 s, or for less while many bring nothing. A reflector whose last list brought
// nothing waits behind the others. So a server that hangs for a hundred resources holds the others
// up for half a minute at the start, and then for a second. A place is left when the list ends or
// fails, between its pages it is kept.
//
// Events are handed to the store as they come, and become visible before each wait for the network.
// A timer ends a watch whose initial events stop coming; it is stopped when the request ends. There
// is no queue, and no reader of the store can hold the reflector up. Only a handler that is at
// work and has fallen behind slows it, to a little less than its own pace (throttle.go).
package reflector
