// Package check reports whether a bundle has all that an agent needs to start (Tree, section 4 of the Nutshell
// specification), and whether it is valid (Validate).
//
// It checks the manifest and follows every path in it, and every path in the documents that these lead to. It changes
// nothing and opens no encrypted vault; Options.Vault can do so.
//
// The package is pure. The tree may come from a stranger: what is read of it is bounded, and the lines of a report
// hold text of the tree that must be made safe before a terminal sees it.
package check
