// Package decode decodes the protobuf bytes of Kubernetes' API types into Go values. The values
// equal those of the types' own generated Unmarshal, with a tenth of the allocations and three
// quarters of the memory.
//
// A type is compiled once into a table of its fields, from the protobuf tags of the struct. Slices
// and maps are allocated at their final size. Strings that occur often, such as label keys, images
// and phases, are allocated once per process and shared. An object with the same fields as a recent
// one is not decoded: it becomes a copy of a private template, in which the values whose bytes
// differ are set. [Decoder.DecodeVersions] copies the later of two versions from the earlier one in
// the same way; if no plan fits, the later version takes strings from the earlier one, and a deep
// copy of its spec or status where the bytes are equal.
//
// Values from [Decoder.Decode] and [Decoder.DecodeVersions] share only strings.
// [Decoder.DecodeShared] is for values that are only read. Its values also share slices, maps and
// pointers with equal bytes, such as the probes and resources of a workload's pods. Of the metadata
// they share only the bytes of managed fields.
//
// Types and bytes that are unusual are left to the generated Unmarshal: fields out of the order of
// their numbers, packed numbers, deep nesting, and malformed bytes. So all errors are those of
// Unmarshal.
package decode
