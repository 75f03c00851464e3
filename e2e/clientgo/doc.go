// Package clientgo runs client-go's own tests of its shared informers on Weir's drop-in informers.
package clientgo
