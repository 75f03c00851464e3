// Package sim runs informers in worlds that are drawn from a seed, and checks what they do against a model that knows nothing of how they
// do it.
//
// Package etcd is the model, package api the servers in front of it and the faults between. A World is all that happens, as data. A run
// executes it in virtual time (testing/synctest).
package sim
