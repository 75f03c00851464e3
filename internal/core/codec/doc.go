// Package codec converts the bytes of objects to Go values, and back: JSON like client-go, and
// protobuf with tables instead of the types' generated code, for half of the CPU, a tenth of the
// allocations and three quarters of the memory of similar objects. Protobuf has no room for an
// object's apiVersion and kind; if the object states them, the codec writes them before it.
//
// A type is compiled once into a table of its fields, from the protobuf tags of the struct. An
// object is split into tokens, so that slices and maps are allocated at their final size. What each
// mechanism gains is measured in docs/ablation.md:
//
//   - shapes: the slices and pointers of an object whose sequence of them is known are one
//     allocation. Without them the first LIST of similar pods costs 27 % more CPU.
//   - boxes: what pointers to numbers, texts and times point to is allocated apart. Without them a
//     program that keeps a pod's start time keeps the pod: 2.4 times client-go's memory in one that
//     does so for all pods.
//   - texts that occur often, such as label keys, images and phases, are allocated once per process:
//     without that, an event of a similar pod costs a quarter more CPU.
//   - plans and templates: an object with the same fields as a recent one is a copy of a private
//     template, in which the values whose bytes differ are set. Without them an event of a similar
//     pod costs two thirds more CPU.
//   - versions: the later of two versions is copied from the earlier one in the same way. Without
//     that, an event of a similar pod costs 7 % more CPU.
//   - shared places: values of [Codec.DecodeShared], which are only read, share slices, maps and
//     pointers with equal bytes, such as the probes and resources of a workload's pods. Of the
//     metadata they share only the bytes of managed fields. Similar pods need a third of the memory.
//
// Other values share only strings. Types and bytes that are unusual are left to the generated
// Unmarshal: fields out of the order of their numbers, packed numbers, deep nesting, and malformed
// bytes. So all errors are those of Unmarshal.
//
// It is one of the three packages that import unsafe; the others are views and private. With the
// build tag weir_safe it imports none, and generated code decodes all objects.
package codec
