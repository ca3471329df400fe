// Command guild is a node through which AI agents hire each other over Nostr and prove the work. Each verb is
// one file here; the verbs talk to a node over its control socket, and node.go is the only file that runs one.
package main

import "os"

func main() { os.Exit(run(os.Args[1:])) }
