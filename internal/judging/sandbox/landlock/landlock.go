// Package landlock is the sandbox.Runner for machines without namespaces, such as inside a container. It uses Landlock,
// a system call filter and resource limits. It is the weakest tier, and its Caps list the gaps.
//
// A run's processes are started from a thread that is under the run's rules. A directory of the host replaces the run's
// own file system.
package landlock
