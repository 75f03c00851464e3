// Package growth measures how figures grow with the number of objects, informers, handlers and
// watchers, and draws them beside client-go's or kube-apiserver's.
//
// An [Axis] is what grows. At each of its points each side is measured once, in a process of its
// own. A side that would not fit into memory, judging by the point before, is left out.
package growth
