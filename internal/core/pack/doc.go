// Package pack compresses the objects of one resource separately, so that each can be read without
// the others. docs/ablation.md has the figures.
//
// Objects of a resource are similar. A [Dictionary] consists of a few of them and packs others with
// S2, by the parts that they share with it. A [Packer] creates dictionaries, and uses the newest
// for the next object. An object is unpacked with the dictionary that it was packed with: keep
// both. Without dictionaries 50,000 similar pods take ten times the memory.
//
// A version of an object that differs little from the previous one need not be packed:
// [AppendPatch] creates a patch from one to the other, in less time and fewer bytes. Without that,
// an event of a dissimilar pod costs a quarter more CPU.
//
// Objects of a group, such as the replicas of a workload, have more in common than fits in a
// dictionary. [Packer.PackSibling] packs an object as a patch of another one of its group, its
// base. Without that, dissimilar pods take 2.5 times the memory.
//
// The package starts no goroutine. It keeps only these objects: the samples for the next
// dictionary, up to 4 of up to 8 KiB; up to 1,024 packed objects that may become bases, which are
// stored anyway; and, until a garbage collection, about one unpacked base of up to 32 KiB for each
// processor.
package pack
