// Command boxinit is the first process of a run, number 1 of its process namespace. It builds the run's file system,
// starts the command, reaps orphans, reports how the command ended, and sends the collected files. Package namespaces
// embeds it and starts it with a plan. Started by hand it does nothing.
//
// It is started for every run, so it is small, and does not use fmt.
//
// Its runtime need not find out the number of processors: GOMAXPROCS is set.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

func main() { run() }
