package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/judging/exam"
	"guild/internal/node"
	"guild/internal/step/agents"
	"guild/internal/step/audit"
)

// answer returns the type that a resource, an action or a stream of the node answers with; a stream's is that of a line.
func answer(endpoint any) reflect.Type {
	call, _ := reflect.TypeOf(endpoint).MethodByName("Call")
	out := call.Type.Out(0)
	if _, isStream := reflect.TypeOf(endpoint).MethodByName("Lines"); isStream {
		return out.Elem()
	}
	return out
}

// printedTypes returns what each verb prints with --json; of one that prints lines, a line.
func printedTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"guild":                       reflect.TypeFor[buildReport](),
		"guild audit compare":         reflect.TypeFor[checkpointPair](),
		"guild audit prove":           reflect.TypeFor[audit.Proven](),
		"guild audit seal":            answer(control.SealJournal),
		"guild audit watch":           reflect.TypeFor[lookout](),
		"guild audit verify":          reflect.TypeFor[audited](),
		"guild backup ls":             answer(control.Backups),
		"guild backup now":            answer(control.MakeBackup),
		"guild backup restore":        answer(control.RestoreBackup),
		"guild canon":                 reflect.TypeFor[map[string]string](),
		"guild demo":                  reflect.TypeFor[[]demoRow](),
		"guild doctor":                reflect.TypeFor[[]finding](),
		"guild events rejected":       answer(control.Rejected),
		"guild hire":                  reflect.TypeFor[control.Update](),
		"guild init":                  reflect.TypeFor[initReport](),
		"guild job apply":             reflect.TypeFor[applied](),
		"guild job cancel":            answer(control.CancelJob),
		"guild job shred":             answer(control.ShredJob),
		"guild job diff":              answer(control.WorkChanges),
		"guild job dispute":           answer(control.DisputeJob),
		"guild job fetch":             reflect.TypeFor[fetched](),
		"guild job ls":                answer(control.Jobs),
		"guild job open":              reflect.TypeFor[fetched](),
		"guild job show":              answer(control.OneJob),
		"guild job watch":             reflect.TypeFor[control.Update](),
		"guild journal archive":       reflect.TypeFor[upkeep](),
		"guild journal ls":            answer(control.Entries),
		"guild journal release":       answer(control.ReleaseGuards),
		"guild journal repair":        reflect.TypeFor[upkeep](),
		"guild judge explain":         answer(control.Evidence),
		"guild judge rule":            answer(control.RuleJob),
		"guild judge run":             reflect.TypeFor[judged](),
		"guild judge compare":         reflect.TypeFor[compared](),
		"guild market bench":          reflect.TypeFor[control.Meeting](),
		"guild market ls":             answer(control.Providers),
		"guild market recommend":      answer(control.RecommendProvider),
		"guild market replay":         answer(control.ReplayRouting),
		"guild market show":           answer(control.Cards),
		"guild market watch":          answer(control.MarketChanges),
		"guild market why":            answer(control.Choices),
		"guild receipt export":        reflect.TypeFor[exported](),
		"guild receipt ls":            answer(control.Receipts),
		"guild replay diff":           reflect.TypeFor[comparison](),
		"guild replay check":          reflect.TypeFor[replayReport](),
		"guild review hold":           answer(control.ChangeReview),
		"guild review ls":             answer(control.Reviews),
		"guild review show":           answer(control.ReviewCards),
		"guild status":                answer(control.NodeStatus),
		"guild trust history":         answer(control.Story),
		"guild trust ls":              answer(control.Trust),
		"guild trust rollback":        answer(control.RollBack),
		"guild trust set":             answer(control.ChangeTrust),
		"guild trust show":            answer(control.Standings),
		"guild trust import":          answer(control.ImportTrust),
		"guild verify":                reflect.TypeFor[[]verified](),
		"guild up":                    reflect.TypeFor[workEvent](),
		"guild work":                  reflect.TypeFor[workEvent](),
		"guild work try":              reflect.TypeFor[tryReport](),
		"guild agent claim":           answer(control.ClaimAgent),
		"guild agent disown":          answer(control.DisownAgent),
		"guild agent edit":            answer(control.InstallAgent),
		"guild agent fork":            answer(control.InstallAgent),
		"guild agent install":         answer(control.InstallAgent),
		"guild agent lessons":         answer(control.Lessons),
		"guild agent lessons accept":  answer(control.ActOnLesson),
		"guild agent lessons comment": answer(control.ActOnLesson),
		"guild agent lessons measure": reflect.TypeFor[measured](),
		"guild agent lessons reject":  reflect.TypeFor[agents.Lesson](),
		"guild agent lessons retire":  answer(control.ActOnLesson),
		"guild agent lessons teach":   answer(control.TeachAgent),
		"guild agent ls":              answer(control.Agents),
		"guild agent new":             answer(control.InstallAgent),
		"guild agent nudge add":       answer(control.KeepNudges),
		"guild agent nudge ls":        answer(control.Nudges),
		"guild agent nudge rm":        answer(control.RemoveNudge),
		"guild agent publish":         answer(control.PublishDefinition),
		"guild agent rm":              answer(control.RemoveAgent),
		"guild agent show":            answer(control.OneAgent),
		"guild agent verify":          answer(control.Owners),
		"guild agent versions":        answer(control.Definitions),
		"guild wallet add mint":       answer(control.AddMint),
		"guild wallet add bitcoind":   answer(control.ConnectBitcoin),
		"guild wallet add lnd":        answer(control.ConnectLightning),
		"guild wallet add nwc":        answer(control.ConnectLightning),
		"guild wallet approve":        answer(control.ApprovePayment),
		"guild wallet judge announce": answer(control.AnnounceArbiter),
		"guild wallet judge ask":      answer(control.AskArbiter),
		"guild wallet judge cases":    answer(control.Cases),
		"guild wallet judge rule":     answer(control.RuleCase),
		"guild wallet backup":         reflect.TypeFor[walletWords](),
		"guild wallet balance":        answer(control.Wallet),
		"guild wallet budget":         answer(control.Budgets),
		"guild wallet freeze":         answer(control.FreezeWallet),
		"guild wallet fund":           answer(control.FundWallet),
		"guild wallet history":        answer(control.WalletHistory),
		"guild wallet owed":           answer(control.Wallet),
		"guild wallet receive":        answer(control.ReceiveToken),
		"guild wallet reconcile":      answer(control.Reconcile),
		"guild wallet restore":        answer(control.RestoreWallet),
		"guild wallet send":           answer(control.SendToken),
		"guild version":               reflect.TypeFor[buildReport](),
		"guild work customers":        answer(control.Customers),
		"guild work judged":           answer(control.Judgements),
		"guild work ls":               answer(control.Services),
		"guild work object":           answer(control.ObjectTo),
		"guild work show":             answer(control.OneRequest),
		"guild judge doctor":          reflect.TypeFor[[]examined](),
		"guild judge vet":             reflect.TypeFor[exam.Vetting](),
		"guild oa ls":                 reflect.TypeFor[[]jobType](),
		"guild journal show":          answer(control.OneEntry),
		"guild relay":                 reflect.TypeFor[relayReport](),
		"guild nook claim":            answer(control.ClaimAgents),
		"guild nook emit":             answer(control.ReportEvents),
		"guild nook export":           reflect.TypeFor[map[string]string](),
		"guild nook hooks install":    reflect.TypeFor[changedHooks](),
		"guild nook hooks uninstall":  reflect.TypeFor[changedHooks](),
		"guild nook verify":           reflect.TypeFor[checkedExports](),
		"guild oa check":              reflect.TypeFor[oaChecked](),
		"guild oa hash":               reflect.TypeFor[map[string]string](),
		"guild work pause":            answer(control.Services),
		"guild work resume":           answer(control.Services),
		"guild work drain":            answer(control.Services),
		"guild review publish":        answer(control.ChangeReview),
		"guild review resume":         answer(control.ChangeReview),
		"guild review retract":        answer(control.ChangeReview),
	}
}

// otherTypes are what verbs print instead by a flag, or by what their argument names: hire --dry-run, market bench --ls and
// work show SERVICE.
func otherTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"guild hire":         reflect.TypeFor[dryRun](),
		"guild agent show":   answer(control.ComposeBehaviour),
		"guild market bench": answer(control.Meetings),
		"guild work show":    answer(control.OneService),
	}
}

// documents are the verbs that print a document with a specification and a schema of its own, with that. Those of guild nut
// print what docs/BUNDLES.md describes.
var documents = map[string]string{
	"guild receipt show": "docs/VERIFY.md",
	"guild replay show":  "docs/VERIFY.md",
	"guild oa schema":    "docs/TYPED.md",

	"guild job result":     "docs/TYPED.md",
	"guild replay convert": "docs/VERIFY.md",
	"guild replay import":  "docs/VERIFY.md",
	"guild nook evolve":    "docs/NOOK.md",
	"guild nook explain":   "docs/NOOK.md",
	"guild nook import":    "docs/NOOK.md",
	"guild nook log":       "docs/NOOK.md",
	"guild nook status":    "docs/NOOK.md",
	"guild trust export":   "docs/TRUST.md",
	"guild trust policy":   "docs/TRUST.md",
}

// units are the units of the numbers in what is printed, by their names; "Type.name" is for one type alone. A number whose
// name ends in _ms, _msat, _micro or _bytes needs no entry.
var units = map[string]string{
	"at": unixMs, "began": unixMs, "changed": unixMs, "closed": unixMs, "deadline": unixMs, "ended": unixMs, "first_seen": unixMs,
	"made": unixMs, "opened": unixMs, "planned": unixMs, "since": unixMs, "started": unixMs, "until": unixMs, "seen_ms": unixMs,
	"until_ms": unixMs, "Standing.last": unixMs, "MatrixChange.signed": unixMs,
	"shredded": unixMs, "erased": unixMs, "exposed": number, "confirmations": number,

	"Asset.free": ofUnit, "Asset.held": ofUnit, "Asset.paid": ofUnit, "Asset.earned": ofUnit, "Asset.sent": ofUnit, "Asset.fees": ofUnit,
	"Asset.lost": ofUnit, "Payment.amount": ofUnit, "Case.amount": ofUnit, "Case.released": ofUnit, "Ruling.amount": ofUnit, "Payment.until": unixMs, "Moved.amount": ofUnit, "Moved.fee": ofUnit,
	"Asset.corrected": ofUnit, "Imbalance.ledger": ofUnit, "Imbalance.worth": ofUnit, "Difference.amount": ofUnit, "Token.amount": ofUnit,
	"Usage.tokens": number, "Movement.amount": ofUnit, "Movement.fee": ofUnit, "Reconciled.coins": number, "workEvent.amount": ofUnit, "Budget.job": ofUnit, "Budget.daily": ofUnit, "Budget.monthly": ofUnit, "Budget.ask_over": ofUnit, "Budget.today": ofUnit, "Budget.month": ofUnit, "demoRow.paid": ofUnit, "Standing.paid": number, "Standing.unpaid": number, "Service.unpaid": number,

	"RouterReplay.changed": number, "RouterReplay.ended": number, "accepted": number, "added": number, "agreeing": number,
	"answered": number, "archived": number, "asked": number, "at_once": number, "barred": number, "calls": number,
	"claims": number, "count": number, "counted": number, "counts": number, "covered": number, "cpus": number, "decided": number,
	"decisions": number, "declined": number, "delivered": number, "disputed": number, "done": number, "drawn": number, "duplicates": number,
	"dropped": number, "each": number, "encrypted": number, "entries": number, "events": number, "expected": number,
	"expired": number, "explored": number, "explored_before": number, "failed": number, "faults": number, "hidden": number,
	"in_clear": number, "jobs": number, "jobs_completed": number, "kept": number, "lines_added": number, "lines_removed": number,
	"load": number, "lost": number, "messages": number, "missing": number, "mixed": number, "nudges_left_out": number, "other_events": number,
	"others": number, "passed": number, "per_minute": number, "pids": number, "pids_peak": number, "providers": number,
	"queue": number, "queued": number, "recommended": number, "refused": number, "running": number, "samples": number,
	"sealed": number, "services": number, "skipped": number, "slots": number, "strong": number, "successes_in_a_row": number,
	"syscalls_refused": number, "types": number, "unclaimed": number, "unknown": number, "visible": number, "voters": number,
	"weak": number, "withdrawn": number, "won": number, "worked": number,
	"both": number, "with": number, "without": number, "neither": number, "pairs": number, "lessons": number, "drafts": number,
	"waiting": number, "other_definition": number, "stranger": number, "retired": number, "over_budget": number,

	"upkeep.dropped": place, "last": place, "seq": place, "entry": place, "through": place, "from": place, "index": place,
	"line": place, "from_line": place, "to_line": place, "ver": "version of a definition", "newest_ver": "version of a definition", "exit_code": "exit code", "kind": "kind of Nostr event", "kinds": "kind of Nostr event",
	"tier": "1 to 3", "pow": "leading zero bits (NIP-13)", "Sealed.size": number, "Proof.size": number, "Consistency.from": number, "Checkpoint.size": number, "Consistency.to": number, "size": "bytes",
	"us": "microseconds", "pylint_milli": "thousandths of a point", "Dimension.weight": "percent",
	"rating": "stars, 0 to 5", "Aggregate.weight": "sum of weights of 0 to 1", "weight": "0 to 1",
	"Terms.cost": "millionths", "Terms.exploration": "millionths", "Terms.latency": "millionths", "Terms.load": "millionths",
	"Terms.trust": "millionths",

	// Of bundles, as the specification of Nutshell has them.
	"files": number, "parts": number, "hidden_tests": number, "tests_passed": number, "tests_failed": number, "part": place,
	"missing_parts": place, "context_tokens_estimate": "tokens", "completion_percentage": "percent", "mixed_percent": "percent", "partial_percent": "percent", "context_budget_hint": "0 to 1",
	"time_limit_seconds": "seconds",

	"confidence": fraction, "Chapter.from": fraction, "Chapter.to": fraction, "score": fraction, "success": fraction,
	"success_rate": fraction, "sure": fraction, "trust": fraction, "trust_from": fraction, "trust_to": fraction, "trust_before": fraction,
	"trust_after": fraction, "would_score": fraction, "would_score_then": fraction, "seen": unixS, "Judgement.until": unixS,
}

const (
	unixMs   = "Unix milliseconds"
	ofUnit   = "in the unit that is named beside it"
	number   = "a number of things"
	place    = "a place in a sequence"
	fraction = "deprecated: 0 to 1, as a decimal; NAME_micro is the same in millionths"
	unixS    = "deprecated: Unix seconds; NAME_ms is the same in Unix milliseconds"
)

// unitOf returns the unit of a number, or "" if it has none.
func unitOf(in reflect.Type, name string) string {
	if unit, ok := units[in.Name()+"."+name]; ok {
		return unit
	}
	if unit, ok := units[name]; ok {
		return unit
	}
	for suffix, unit := range map[string]string{"_ms": "milliseconds", "_msat": "millisatoshis", "_micro": "millionths", "_bytes": "bytes"} {
		if strings.HasSuffix(name, suffix) {
			return unit
		}
	}
	return ""
}

var snake = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// TestEveryJSONHasNamesAndUnits walks what every verb prints: each member has a name in snake_case, and each number a unit.
func TestEveryJSONHasNamesAndUnits(t *testing.T) {
	all := printedTypes()
	for _, path := range verbsWithJSON() {
		if _, ok := all[path]; !ok && documents[path] == "" && !strings.HasPrefix(path, "guild nut ") {
			t.Errorf("%s has --json, and its type is not listed", path)
		}
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		typ = inside(typ)
		if typ.Kind() != reflect.Struct || seen[typ] || isOpaque(typ) {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			walk(f.Type)
			if f.Anonymous && name == "" {
				continue
			}
			if !snake.MatchString(name) {
				t.Errorf("%s.%s is printed as %q", typ, f.Name, name)
			}
			if !isNumber(inside(f.Type)) {
				continue
			}
			if unitOf(typ, name) == "" {
				t.Errorf("%s.%s is a number without a unit: name it with one, or add it to units", typ, name)
			}
		}
	}
	for _, typ := range all {
		walk(typ)
	}
	for _, typ := range otherTypes() {
		walk(typ)
	}
}

// TestSchemaOfJSON compares docs/json.schema.json, which has a schema for each verb, with the types; -update writes it.
func TestSchemaOfJSON(t *testing.T) {
	defs, verbs := map[string]any{}, map[string]any{}
	for path, typ := range printedTypes() {
		verbs[path] = schemaFor(typ, defs)
		if other, ok := otherTypes()[path]; ok {
			verbs[path] = map[string]any{"anyOf": []any{verbs[path], schemaFor(other, defs)}}
		}
	}
	b, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "What the verbs of guild print with --json; of verbs that print lines, a line",
		"$defs":   map[string]any{"verbs": verbs, "types": defs, "error": schemaFor(reflect.TypeFor[cli.Failure](), defs)},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *update {
		if err := os.WriteFile(schemaPage, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(schemaPage)
	if err != nil || !bytes.Equal(kept, b) {
		t.Errorf("%s is not up to date (%v): go test -run %s -update", schemaPage, err, t.Name())
	}
}

const schemaPage = "../../docs/json.schema.json"

// schemaFor returns the schema of a type, and adds those of the objects in it to defs.
func schemaFor(typ reflect.Type, defs map[string]any) map[string]any {
	switch {
	case typ.Kind() == reflect.Pointer:
		return schemaFor(typ.Elem(), defs)
	case typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || typ == reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string"}
	case isOpaque(typ) || typ.Kind() == reflect.Interface:
		return map[string]any{}
	}
	switch typ.Kind() {
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": []string{"array", "null"}, "items": schemaFor(typ.Elem(), defs)}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaFor(typ.Elem(), defs)}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		name := typ.String()
		if _, ok := defs[name]; !ok {
			defs[name] = nil // types may contain themselves
			defs[name] = objectSchema(typ, defs)
		}
		return map[string]any{"$ref": "#/$defs/types/" + name}
	}
	return map[string]any{"type": "integer"}
}

func objectSchema(typ reflect.Type, defs map[string]any) map[string]any {
	properties, required := map[string]any{}, []string{}
	var add func(reflect.Type)
	add = func(typ reflect.Type) {
		for f := range typ.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "" && f.Anonymous && !isOpaque(f.Type):
				add(f.Type)
			case name == "" || name == "-":
			default:
				member := schemaFor(f.Type, defs)
				if unit := unitOf(typ, name); isNumber(inside(f.Type)) && unit != number {
					member["description"] = unit
				}
				properties[name] = member
				if f.Type.Kind() == reflect.Pointer {
					properties[name] = map[string]any{"anyOf": []any{properties[name], map[string]any{"type": "null"}}}
				}
				if options == "" {
					required = append(required, name)
				}
			}
		}
	}
	add(typ)
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// checkAgainstSchema demands that each value that a verb printed fits its schema.
func checkAgainstSchema(t *testing.T, verb []string, printed string) {
	t.Helper()
	path := "guild"
	for _, word := range verb {
		if _, ok := printedTypes()[path+" "+word]; ok || word == verb[0] {
			path += " " + word
		}
	}
	if _, ok := printedTypes()[path]; !ok || !slices.Contains(verb, "--json") {
		return
	}
	at := "verbs/" + url.PathEscape(path)
	if strings.HasPrefix(printed, `{"error":`) {
		at = "error"
	}
	schema, err := jsonschema.NewCompiler().Compile(schemaPage + "#/$defs/" + at)
	if err != nil {
		t.Fatal(err)
	}
	values := json.NewDecoder(strings.NewReader(printed))
	for values.More() {
		var value any
		if values.Decode(&value) != nil {
			return // at the exit code
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestBundleVerbsHaveNamesAndUnits does the same for the results of guild nut and nutshell, whose types are read from their
// source.
func TestBundleVerbsHaveNamesAndUnits(t *testing.T) {
	files, err := filepath.Glob("../../internal/nut/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	numbers := regexp.MustCompile(`^(\[\]|\*)*(int|int64|uint64|float64)$`)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			member, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if err != nil || member == "" || member == "-" {
				return true
			}
			if !snake.MatchString(member) {
				t.Errorf("%s: a member is printed as %q", name, member)
			}
			if unit := unitOf(reflect.TypeFor[struct{}](), member); unit == "" && numbers.MatchString(types.ExprString(field.Type)) {
				t.Errorf("%s: %s is a number without a unit", name, member)
			}
			return true
		})
	}
}

// inside returns the type of the values in a list, a map or a pointer.
func inside(typ reflect.Type) reflect.Type {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, typ.Kind()) {
		if isOpaque(typ) {
			return typ
		}
		typ = typ.Elem()
	}
	return typ
}

// isOpaque reports whether a type decides itself how it is written, or keeps names that were deprecated.
func isOpaque(typ reflect.Type) bool {
	return typ.Implements(reflect.TypeFor[json.Marshaler]()) || typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || typ == reflect.TypeFor[[]byte]() || typ == reflect.TypeFor[node.Repaired]() || typ == reflect.TypeFor[nostr.Event]()
}

func isNumber(typ reflect.Type) bool {
	return typ.Kind() >= reflect.Int && typ.Kind() <= reflect.Float64 && !isOpaque(typ)
}

func verbsWithJSON() []string {
	var paths []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("json") != nil {
			paths = append(paths, cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&program{}).rootCommand())
	return paths
}
