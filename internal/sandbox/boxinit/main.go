// Command boxinit is the first process of a run, number 1 of its process namespace. It builds the world that the
// run sees, starts the command in it, reaps what is orphaned, reports how the command ended, and sends out what
// is to be collected. Package namespaces carries it inside and starts it with a plan; by hand it does nothing.
//
// It starts with every run, so it is small, and formats nothing.
//
// Its runtime need not ask how many processors there are: it is told.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

func main() { run() }
