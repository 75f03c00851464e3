// Package lab replays incidents that informers bring about, side by side: each side in a process of
// its own, sampled while it runs, on one server. It draws what it measured.
//
// An [Incident] says what is replayed and drawn, [Run] measures, and a [Report] is written as a
// table, as JSON or as a page.
package lab
