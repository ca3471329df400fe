package main

import "github.com/spf13/cobra"

// jsonTopic has the text of "guild help json": what all JSON of guild has in common.
func jsonTopic() *cobra.Command {
	return &cobra.Command{Use: "json", Short: "What --json prints, and its units", Long: `With --json a verb prints one JSON value, or an object per line.
docs/json.schema.json has a schema for each verb, with the unit of each number.

  guild job ls --json | jq -r '.[] | select(.ending == "") | .id'
  guild hire ./task --json | jq -r 'select(.ended) | .ended.ending'

Names are in snake_case. Times are in Unix milliseconds, durations in
milliseconds, money in millisatoshis, and what goes from 0 to 1 in millionths.
A verdict, a receipt, a choice and an entry of the journal are printed as they
are hashed, with the units of their specifications. Ids and hashes are
lower-case hex; keys are npubs or hex, as their names say. A list without
members is [].

New members may appear in any object: ignore what you do not know. None is
renamed or removed without a note in CHANGELOG.md.

Nothing is asked but a passphrase on a terminal. What would be asked is refused
without --yes; init takes the default. An error is one line, {"error":…,
"hint":…, "code":…}, the last of a stream: see guild help exit-codes.`}
}

// traceTopic has the text of "guild help trace": the lines that a worker may write to GUILD_TRACE.
func traceTopic() *cobra.Command {
	return &cobra.Command{Use: "trace", Short: "How a worker records its session", Long: `A command that guild work runs can record what it does: GUILD_TRACE is the
number of a file descriptor that takes one JSON object per line.

  echo '{"tool":"pytest","exit_code":1,"output":"1 failed"}' >&$GUILD_TRACE

A line has one or more of these:

  tool, params, id, step         a call begins; params is an object
  id, output                     its result, a text or any JSON; without an id
                                 that of the latest call
  id, output_part                a part of a text; the line "done":true ends it
  id, output_hash                the result, of which output is the beginning
  exit_code, latency_ms, step_utility, side_effects
                                 with a result; utility is -1 to 1, effects are
                                 such as "file:src/a.go"
  step, status, iterations       a step ends: Success, Failed, Skipped or
                                 MaxIterationsReached
  plan                           go doc guild/replay/session.Plan
  verification                   {"commands":[],"exit_codes":[],
                                 "verification_delta":0}
  note                           a text for readers of the record
  confidence                     0 to 1, for the whole work
  model, tokens, cost_micro_usd  totals so far; tokens {"input":0,"output":0}
  event                          an event of REPLAY.jsonl

guild adds times, ids and hashes, and replaces secrets before it hashes. What is
faulty or over a limit is skipped and counted in the receipt; it never stops the
worker. Limits: 4 MiB a line, 64 MiB or 100,000 lines in all. Parameters over
256 KiB and outputs over 2,000 characters are recorded as hashes alone.`}
}
