// Package landlock is the sandbox.Runner for machines that allow no namespaces, such as inside a container:
// Landlock, a system call filter and resource limits. It is the weakest tier and says so.
package landlock
