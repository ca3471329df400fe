// Package namespaces is guild's own sandbox.Runner, made of Linux namespaces and nothing else: no set-user-id
// program, no daemon. It owns the world that a run sees, the small program that builds it from inside as the
// run's first process, and the fork server that starts warm interpreters in it.
package namespaces
