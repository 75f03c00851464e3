// Package cost predicts what requests cost a kube-apiserver, or a weir-proxy: the CPU that they
// take, the bytes that they send, the memory that they hold. Its coefficients are measured, and are
// kept in model.json beside the date, the machine and the command.
//
// The model is a sum of:
//   - the fixed cost of a request
//   - the query to etcd, for a LIST that must be current
//   - each object that a selector is compared with
//   - each byte sent, by its stored size and the encoding
package cost
