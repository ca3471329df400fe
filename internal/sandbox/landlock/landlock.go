// Package landlock is the sandbox.Runner for machines that allow no namespaces, such as inside a container:
// Landlock, a system call filter and resource limits. It is the weakest tier and says so.
//
// It owns the rules of a run, the thread that its processes are started from, and the directory that stands in
// for a file system of the run's own.
package landlock
