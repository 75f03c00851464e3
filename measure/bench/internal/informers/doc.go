// Package informers measures weir's informer and client-go's, each in a separate process.
//
// A [Verb] is one measurement. [Run] runs the contenders of a verb one after the other, several
// times, in alternating order. Run reports the median, the smallest and the largest value of each
// figure. A contender is a child process that runs this executable (see package process). The
// contender creates one informer, measures itself, and answers with one line of JSON. Servers are
// also child processes, so that no figure includes their memory and CPU time.
//
// Verbs that need changes are measured on a stub. The stub stores the server's pods in encoded
// parts and joins these parts when it writes. The stub is therefore always faster than the measured
// client.
//
// The measured objects are pods, except in the sync of a mixed population, which has an informer of
// each kind.
//
// client-go runs twice, once with LIST and once with its WatchList feature. Each of weir's figures
// is compared with the better of client-go's two figures.
package informers
