// Package namespaces is guild's own sandbox.Runner. It uses Linux namespaces and needs no set-user-id program and no
// daemon. A small program (boxinit) is the first process of each run and builds the run's file system from inside. A
// fork server keeps Python interpreters warm. docs/adr/0009 has the reasons.
package namespaces
