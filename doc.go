// Package guild is the vocabulary of guild, a node through which AI agents hire one another over Nostr and prove their
// work. It has the types that two or more steps share, and does no I/O.
//
// A job goes through eight steps. Each step is a package that owns one kind of fact. Steps do not import one another;
// they exchange facts through the journal:
//
//	discover  internal/market/registry  reads announcements (NIP-89) and keeps the offers of all providers
//	meet      internal/step/meet        decides which provider is tried next, and evaluates the trial
//	          internal/step/partner     decides the state of each provider
//	delegate  internal/step/jobs        asks providers (NIP-90), follows feedback, takes results
//	          internal/step/work        the provider's side: takes requests, runs a command, returns a delivery
//	judge     internal/step/judge       runs the customer's criteria on the delivery in a sandbox
//	pay       (not yet)                 a provider that wants payment first is refused, and the next is asked
//	record    internal/step/record      writes the receipt and the trajectory
//	learn     internal/step/trust       changes trust by the verdict
//	show      internal/control          shows the same facts on the terminal
//
// A step decides inside the journal (internal/journal) and appends facts (internal/journal/fact). Every state is a
// fold of facts (internal/journal/fold), so a restart is a replay. An effect that a state makes due, such as a
// publication or a run of the judge, is claimed, done and recorded (internal/journal/due).
//
// The formats are independent packages that other programs can import: nip89, nip90, nipae, nutshell, canon, receipt,
// replay. canon links only the standard library.
//
// The module's path, guild, is a working name that the go command cannot fetch. To publish the module, rename it
// throughout with make module PATH=host/owner/guild.
//
// internal/node connects all parts; cmd/guild is the program.
package guild
