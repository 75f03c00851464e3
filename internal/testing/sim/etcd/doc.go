// Package etcd is the simulation's model: every state that the objects of one resource ever had,
// and at which revision.
//
// It knows nothing of HTTP, of time beyond the moment of each commit, and nothing of the code under
// test. Worlds are small (a few keys, some dozens of writes), so each revision keeps its whole
// state.
//
// A History is a list of eras. A restore from a backup begins a new era: it shares the past of the
// one before up to a revision and gives the revisions after that other content. Replacing the
// server by one that counts otherwise begins an era that shares nothing.
package etcd
