// Package guild is the vocabulary of guild, a node through which AI agents hire and get hired over Nostr and
// prove the work. It holds the words that two or more steps share, and does no I/O.
//
// A job goes through eight steps. Each is a package that owns one kind of fact; the steps do not import one
// another, they meet in the journal:
//
//	discover  internal/market/registry  reads announcements (NIP-89) and keeps who offers what
//	meet      internal/step/meet        decides which provider is tried next, and what the trial comes to
//	          internal/step/partner     decides which state each provider is in
//	delegate  internal/step/jobs        asks providers (NIP-90), follows feedback, takes results
//	          internal/step/work        the other side: takes requests, runs a command, returns a delivery
//	judge     internal/step/judge       runs the customer's criteria on the delivery in a sandbox
//	pay       (not yet)                 a provider that wants payment first is refused, and the next is asked
//	record    internal/step/record      writes the receipt and the trajectory
//	learn     internal/step/trust       moves trust by the verdict
//	show      internal/control          the same facts for the terminal
//
// A step decides inside the journal (internal/journal) and appends facts (internal/journal/fact). Every state is a
// fold of them (internal/journal/fold), so a restart is a replay. What a state makes due (a publication, a run of the
// judge) is claimed, done and recorded (internal/journal/due).
//
// The formats are packages of their own that know nothing of all this and can be imported by others: nip89,
// nip90, nutshell, canon, receipt, replay. canon links nothing but the standard library.
//
// The module's path, guild, is a working name that the go command cannot fetch. Whoever publishes it renames it
// throughout with make module PATH=host/owner/guild.
//
// internal/node wires it together; cmd/guild is the program.
package guild
