// Package pack compresses the objects of one resource. It compresses each object separately, so
// that a reader can decompress one object without the others. docs/explanation/ablation.md has the
// measurements.
//
// Objects of a resource are similar. A [Dictionary] consists of a few sample objects, and packs
// other objects with S2: parts that an object shares with the samples cost few bytes. A [Packer]
// creates dictionaries, and packs each object with the newest dictionary. An object must be
// unpacked with the same dictionary, so callers store the object together with the dictionary.
// Without dictionaries, 50,000 similar pods use ten times the memory.
//
// If a version of an object differs little from the previous version, [AppendPatch] creates a patch
// that turns the previous version into the new one. A patch takes less time and fewer bytes than
// packing. Without patches, an event of a dissimilar pod costs a quarter more CPU.
//
// The objects of a group, such as the replicas of a workload, have more in common than fits into a
// dictionary. [Packer.PackSibling] packs an object as a patch of another object of its group, the
// base. Without bases, dissimilar pods use 2.5 times the memory.
//
// The package starts no goroutine. It stores up to 4 samples of up to 8 KiB for the next
// dictionary. It also refers to up to 1,024 packed objects that may become bases; callers store
// these objects too, so this costs no additional memory. For each processor, it keeps about one
// unpacked base of up to 32 KiB until the next garbage collection.
package pack
