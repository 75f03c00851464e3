// Package pack compresses the objects of one resource separately, so that each can be read without
// the others.
//
// Objects of a resource are similar. A [Dictionary] consists of a few of them and packs others by
// the parts that they share with it. A [Packer] creates dictionaries, chooses the one for the next
// object, and replaces it when objects drift away from it. An object is unpacked with the
// dictionary that it was packed with: keep both.
//
// An entropy coder, package compress, compresses the output of S2. A fast pack omits that.
// docs/performance.md has the figures.
//
// Objects of a group, such as the replicas of a workload, have more in common than fits in a
// dictionary. [Packer.PackSibling] packs an object against another one of its group, its base. If
// workloads are dissimilar, the result has a tenth of the bytes.
//
// A version of an object that differs little from the previous one need not be packed:
// [AppendPatch] creates a patch from one to the other, in less time and fewer bytes.
//
// The package starts no goroutine. It keeps only these objects: the samples for the next
// dictionary, up to 48 of up to 64 KiB, and for codes, up to 32 blocks of up to 4 KiB; 192 KiB of
// bases, and 4 MiB of fast packs of bases.
package pack
