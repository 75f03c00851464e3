// Package pack compresses the objects of one resource, each on its own, so that one can be read
// without the others.
//
// Objects of a resource are alike. A [Dictionary] is made of a few of them and packs others by what
// they share with it. A [Packer] makes dictionaries, chooses the one for the next object, and
// replaces it when objects drift away from it. An object is unpacked with the dictionary that it
// was packed with: keep both.
//
// Behind S2 with a dictionary stands an entropy coder, package entropy. A fast pack leaves that
// out. docs/performance.md has the figures.
//
// Objects of a group, such as the replicas of a workload, have more in common than a dictionary
// holds. [Packer.PackSibling] packs an object against another one of its group, its base. Where
// workloads are unlike, that makes a tenth of the bytes.
//
// A version of an object that differs little from the one before need not be packed: [AppendPatch]
// makes what turns one into the other, in less time and bytes.
//
// The package starts no goroutine. It holds no object but the samples that the next dictionary is
// made of, 48 at most, each of 64 KiB at most, what codes are made of, 32 blocks of 4 KiB at most,
// 192 KiB of bases, and 4 MiB of fast packs of bases.
package pack
