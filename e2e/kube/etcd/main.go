// Command etcd is the upstream etcd server, built from its Go module so that end-to-end tests need
// only the module proxy.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
