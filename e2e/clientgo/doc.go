// Package clientgo runs client-go's own tests of its shared informers on the drop-in.
package clientgo
