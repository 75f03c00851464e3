// Package decode makes Go values of the protobuf bytes of Kubernetes' API types: the same values as
// the types' own generated Unmarshal makes, with a tenth of the allocations and three quarters of
// the memory.
//
// A type is compiled once into a table of its fields, from the protobuf tags of the struct. Slices
// and maps are made at their size, and strings that come again and again, such as label keys,
// images and phases, are made once for the process and shared: nobody can change a string. An
// object of the same fields as the one before it is not decoded at all: it becomes a copy of a
// private sample, in which the values whose bytes differ are put right. With
// [Decoder.DecodeVersions] the later one of two versions becomes a copy of the earlier one in the
// same way. With both this and [Decoder.Decode] nothing but strings is shared between two values.
// [Decoder.DecodeShared] is for values that are only read: slices, maps and pointers of theirs that
// have come before, such as the probes and resources of a workload's pods, are not decoded again,
// and all values have the same ones; of metadata, only the bytes of managed fields.
//
// Whatever is out of the ordinary, in a type or in bytes, is left to the generated Unmarshal:
// fields that are not in the order of their numbers, packed numbers, nesting beyond reason, and
// everything that is wrong. So its errors are the errors.
package decode
