//go:build !linux

package main

// run does nothing: there are no namespaces.
func run() {}
