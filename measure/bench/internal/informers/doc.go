// Package informers measures weir's informer against client-go's, each in a process of its own.
//
// A [Verb] is one measurement. [Run] takes the contenders of a verb in turn, several times, now
// forwards, now backwards, and reports the median, the smallest and the largest of each figure. A
// contender is this executable run again as a child (see package child): it builds one informer,
// measures itself, and answers with one line of JSON. Servers are children too, so that no
// figure includes their memory and CPU.
//
// What needs more than a server that is only read from is measured on a stub: it holds the server's
// pods, encoded in parts, and splices these while it writes, so that it is never what is slow.
//
// Pods are measured, but for the sync of a mixed population: that is of an informer of each kind.
//
// client-go runs twice, once with LIST and once with its WatchList feature; each figure is compared
// with the better one.
package informers
