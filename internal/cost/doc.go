// Package cost predicts what requests cost a kube-apiserver, or a weir-proxy: the CPU that they
// take, the bytes that they send, the memory that they hold. Its coefficients are measured, and are
// kept in model.json beside the date, the machine and the command.
//
// The model is a sum. A request costs a fixed time; one that must be as new as the storage costs
// the question to etcd; each object that a selector is held against costs the same; and what is
// sent costs by its size as it is stored, in each of the encodings that clients ask for.
package cost
