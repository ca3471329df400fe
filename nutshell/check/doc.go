// Package check is what a person or an agent asks of a bundle before anybody starts: is everything there (Tree, section
// 4 of the Nutshell specification), and does it hold together (Validate).
//
// It looks at the manifest and at the files beside it: every path that the manifest names, and every path that the
// documents behind those paths name, is followed. It never changes anything and never opens a vault itself; whoever
// has keys lends it a function that does.
//
// The package is pure. The tree may come from a stranger: what is read of it is bounded, and the lines of a report
// hold text of the tree that must be made safe before a terminal sees it.
package check
