// Package nook computes what the Nook protocol gives agents for their activity: sparks, growth and chests. It owns the rules. It has
// no clock, no randomness and no files: what it needs from the world is an argument.
//
// # Events
//
// Parse checks an event strictly, and Event.Received completes it with what only the receiver knows. A Recorded event has come
// into the journal of a root identity, which may be any string; all agents of a root share its caps. Heartbeats are not
// recorded: they only keep a Pulse alive, which says what an agent's sprite shows.
//
// # Sparks
//
// An Account is the fold of the recorded events of one root. Account.Add takes them in the order of the journal. The result does
// not depend on the order in which events arrive within 24 hours; what is older when it arrives counts for nothing. Completed work
// earns, and nothing else does (Compute):
//
//  1. the formula, sqrt(tokens/1000) * ln(units+1), rounded to a micro-spark (Raw). The units are the distinct work units that
//     accepted events of the root name in the 24 hours up to and including this one;
//  2. the brackets: 100 % until the root has earned 100 sparks in the UTC day, then 50 % until 200, 25 % until 300;
//  3. at most 50 sparks in each UTC hour, and 300 in each UTC day.
//
// Traces gives each step for each event of a history. Account.Totals and Account.Agents give sums, split by the Level of
// verification.
//
// # Growth
//
// Sparks open the stages of Account.Evolution, and the owner chooses with Account.Evolve. Account.Achievements unlock once, and never
// add sparks. Account.Streak counts UTC days in a row with a successful agent.completed event that names a work unit. Each streak of
// 7, 30 and 100 days earns a chest of tier 1, 2 and 3, and one of 365 days a legendary cosmetic.
//
// # Chests
//
// Draw computes what is in a chest from the hash of the journal's entry that earned it, so that everybody can check it. There is no
// pity. The chances of a rarity, ChestOdds, are
//
//	tier    common  uncommon   rare   epic   legendary
//	1         60 %      25 %   10 %    4 %         1 %
//	2         40 %      33 %   17 %    8 %         2 %
//	3         20 %      35 %   27 %   13 %         5 %
//
// A cosmetic that the owner has already becomes bits, a fifth of its price. Bits and bytes cannot be bought, and nothing grants bytes.
//
// # A history from before
//
// Account.Import folds earlier events apart from the account's own, and Account.Onboard turns their sparks into a Heritage: chests, a
// badge and a bonus toward stage 2, and nothing else.
//
// # Files
//
// An Account encodes itself as a snapshot in JSON. EncodeExport and the decoders are for profile.json, events.json and sparks.json.
package nook
