// Command etcd is the server, started as its module documents for embedding: the module itself has no installable main.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
