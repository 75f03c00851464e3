// Package growth measures how figures grow with the work: informers of more and more objects, of
// which there are more and more, with more and more handlers, and the watch cache with more and
// more watchers. It draws them beside what they are compared with.
//
// An [Axis] is what grows. At each of its points each side is measured once, in a process of its
// own. A side whose memory would not be there is left out, by what it took at the point before.
package growth
