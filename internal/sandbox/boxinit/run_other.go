//go:build !linux

package main

// run has nothing to do where there are no namespaces.
func run() {}
