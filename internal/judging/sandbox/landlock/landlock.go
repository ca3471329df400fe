// Package landlock is the sandbox.Runner for machines without namespaces, such as inside a container. It uses Landlock, a
// system call filter and resource limits. It is the weakest tier, and its gaps say so.
//
// A run's processes are started from a thread that is under the run's rules. A directory of the host takes the place of a
// file system of the run's own.
package landlock
