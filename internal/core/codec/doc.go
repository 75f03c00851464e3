// Package codec converts the bytes of objects to Go values, and back. It decodes JSON like
// client-go. For protobuf it uses tables instead of the types' generated code. For similar objects,
// the tables need half of the CPU, a tenth of the allocations and three quarters of the memory of
// the generated code. A protobuf message has no field for the object's apiVersion and kind; if the
// object states them, the codec writes them before the message.
//
// The codec compiles a type once into a table of its fields, from the protobuf tags of the struct.
// It splits an object into tokens, so that it allocates slices and maps at their final size.
// docs/explanation/ablation.md has the measured gain of each of the following mechanisms:
//
//   - Templates: when a second object has the same sequence of fields, the codec makes a template,
//     an object whose slices and pointers are one allocation. It copies the template for further
//     objects with these fields, and sets the values whose bytes differ. Without templates, an
//     event of a similar pod costs two thirds more CPU.
//   - Boxes: the targets of pointers to numbers, texts and times are allocated separately. Without
//     boxes, a program that keeps a pod's start time keeps the whole pod. If it does so for all
//     pods, it uses 2.4 times client-go's memory.
//   - Frequent texts, such as label keys, images and phases, are cached, and usually allocated
//     once. Without the cache, an event of a similar pod costs a quarter more CPU. Texts of one
//     object, such as its uid, are reused for its next version, if that version is decoded next.
//   - Earlier versions: the codec decodes only those fields that differ from the earlier version of
//     an object, and copies or shares the others. Without this mechanism, two versions of a
//     dissimilar pod cost a quarter more CPU.
//   - Shared values: callers of [Codec.DecodeShared] only read the decoded objects. So objects
//     share slices, maps and pointers whose bytes are equal, such as the probes and resources of a
//     workload's pods. Of the metadata they share only the bytes of managed fields. Similar pods
//     then need a third of the memory. What an object does not share is one allocation; otherwise
//     kube-scheduler's peak is 7 % higher.
//
// Objects that Decode returns share only strings. The generated Unmarshal decodes unusual types and
// bytes: fields out of the order of their numbers, packed numbers, deep nesting, and malformed
// bytes. So all errors are errors of Unmarshal.
//
// Three packages import unsafe: codec, views and private. With the build tag weir_safe, codec does
// not import unsafe, and generated code decodes all objects.
package codec
