package draft

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
)

// setting is a call of set.
type setting struct {
	dir, key string
	values   []string

	jsonValue, unset, force bool
}

func (p program) setCommand() *cobra.Command {
	var s setting
	cmd := &cobra.Command{
		Use:   "set KEY VALUE...",
		Short: "Change one field of a manifest",
		Long: `Change one field of the manifest, and leave everything else as it is written.

KEY is a dotted path such as task.title. The elements of a list have numbers
from 0 on, and - is the place after the last one. A name that has dots itself
stands in double quotes: 'extensions."org.example".level'.

VALUE is taken for what the field holds: text, a number, true or false, a time
such as 2026-03-21T10:00:00Z. A list takes several values; names, labels and
files may also stand in one, with commas between them. Below extensions and
tags.custom, a value that is JSON is taken as JSON, and as text otherwise.
--json-value takes any value as JSON.`,
		Example: p.Examples(
			`set task.title "Build a REST API"`, "set tags.skills_required golang,postgresql",
			`set harness.constraints "Stay in files/src" "Write tests"`, "set context.additional.- context/faq.md --dir my-task",
			"set extensions.clawnet.reward.amount 500", "set --unset expires_at"),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeSetting,
	}
	host.DirFlag(cmd.Flags(), &s.dir)
	cmd.Flags().BoolVar(&s.jsonValue, "json-value", false, "the value is JSON")
	cmd.Flags().BoolVar(&s.unset, "unset", false, "remove the field")
	cmd.Flags().BoolVar(&s.force, "force", false, "set a field that the specification does not know")
	return p.Verb(cmd, "print the change as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		if len(args) == 0 || s.unset != (len(args) == 1) {
			err := cli.Usage(fmt.Errorf("%s takes a key and a value, or a key with --unset", cmd.CommandPath()))
			return nil, cli.WithHint(err, cmd.UseLine())
		}
		s.key, s.values = args[0], args[1:]
		return p.set(s)
	})
}

// completeSetting offers the known keys, and then the known values of one.
func completeSetting(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nutshell.Fields(), cobra.ShellCompDirectiveNoFileComp
	}
	f, err := nutshell.FieldAt(args[0])
	switch {
	case err == nil && len(args) == 1 && f.Kind == nutshell.KindFlag:
		return []string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp
	case err == nil && len(args) == 1 && len(f.Values) > 0:
		return f.Values, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// setResult is a change of a manifest.
type setResult struct {
	Key      string          `json:"key"`
	Old      json.RawMessage `json:"old,omitempty"` // absent if there was none
	New      json.RawMessage `json:"new,omitempty"`
	Warnings []string        `json:"warnings"`
}

func (p program) set(s setting) (host.Result, error) {
	value, err := s.value()
	if err != nil {
		return nil, err
	}
	if err := p.Editable(s.dir); err != nil {
		return nil, err
	}
	c := setResult{Key: s.key, Warnings: []string{}}
	err = host.RewriteManifest(s.dir, func(m *nutshell.Manifest) error {
		c.Old, _ = m.Member(s.key)
		where := s.where(m)
		if err := s.apply(m, value); err != nil {
			return err
		}
		odd, err := s.check(m.BundleType(), value)
		c.New, _ = m.Member(where)
		c.Warnings = append(c.Warnings, odd...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.dir, err)
	}
	return c, nil
}

func (s setting) apply(m *nutshell.Manifest, value json.RawMessage) error {
	if s.unset {
		return m.Remove(s.key)
	}
	return m.Set(s.key, value)
}

// where returns the path of the value once it is set: "-", the place after a list's last element, becomes a number.
func (s setting) where(m *nutshell.Manifest) string {
	names, err := nutshell.SplitPath(s.key)
	if err != nil {
		return s.key
	}
	for i, name := range names {
		list := nutshell.Path(names[:i]...)
		if name != "-" || i == 0 {
			continue
		}
		var elements []json.RawMessage
		raw, there := m.Member(list)
		f, err := nutshell.FieldAt(list)
		if there && json.Unmarshal(raw, &elements) == nil || !there && err == nil && f.Kind != nutshell.KindObject {
			names[i] = strconv.Itoa(len(elements))
		}
	}
	return nutshell.Path(names...)
}

// check makes the same change to a manifest that has only the required fields. It returns an error if that becomes
// invalid, and what is odd about the value.
func (s setting) check(bundleType string, value json.RawMessage) ([]string, error) {
	least := `{"nutshell_version":"` + nutshell.Version + `","bundle_type":"request","id":"nut-0","task":{"title":"t"}}`
	if bundleType == nutshell.TypeDelivery {
		least = strings.Replace(least, "request", nutshell.TypeDelivery, 1)
	}
	m, err := nutshell.ParseManifest([]byte(least))
	if err != nil {
		return nil, err
	}
	if err := s.apply(m, value); err != nil {
		return nil, nil // the change needs what is missing here
	}
	odd, err := m.Validate()
	if err != nil {
		return nil, cli.WithHint(err, "no bundle can do without this field")
	}
	return odd, nil
}

// Print implements host.Result.
func (c setResult) Print(p *host.Program) error {
	for _, w := range c.Warnings {
		fmt.Fprintln(p.Err, "warning:", cli.Clean(w))
	}
	_, err := fmt.Fprintf(p.Out, "%s: %s → %s\n", cli.Clean(c.Key), inShort(c.Old), inShort(c.New))
	return err
}

// inShort returns a JSON value on one line, cut if it is long.
func inShort(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "(none)"
	}
	return cli.Cut(cli.Clean(strings.Join(strings.Fields(string(raw)), " ")), 200)
}

// value returns the JSON that the arguments mean for the field.
func (s setting) value() (json.RawMessage, error) {
	f, err := nutshell.FieldAt(s.key)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if f.Kind == nutshell.KindUnknown && !s.force && !s.unset {
		return nil, s.unknown()
	}
	switch {
	case s.unset:
		return nil, nil
	case f.Kind == nutshell.KindTexts && !s.jsonValue:
		return json.Marshal(s.texts(f))
	case len(s.values) > 1:
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s takes one value, not %d", s.key, len(s.values))), "put a text with spaces in quotes")
	case s.jsonValue:
		return s.literal(json.Valid([]byte(s.values[0])), "JSON")
	}
	return s.single(f)
}

// single returns the JSON of one value for a field that is not a list.
func (s setting) single(f nutshell.Field) (json.RawMessage, error) {
	v := s.values[0]
	switch f.Kind {
	case nutshell.KindText:
		return json.Marshal(v)
	case nutshell.KindTime:
		if _, err := nutshell.Timestamp(v).Time(); v != "" && err != nil {
			return nil, s.not(f.Kind)
		}
		return json.Marshal(v)
	case nutshell.KindFlag:
		return s.literal(v == "true" || v == "false", f.Kind)
	case nutshell.KindWhole, nutshell.KindNumber:
		var n json.Number
		return s.literal(json.Unmarshal([]byte(v), &n) == nil && v[0] != '"' && v != "null", f.Kind)
	case nutshell.KindList, nutshell.KindObject:
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is %s", s.key, f.Kind)), "set one of its fields, or give all of it with --json-value")
	}
	if json.Valid([]byte(v)) {
		return json.RawMessage(v), nil
	}
	return json.Marshal(v)
}

// literal returns the value as it is, if it is right.
func (s setting) literal(right bool, want nutshell.Kind) (json.RawMessage, error) {
	if !right {
		return nil, s.not(want)
	}
	return json.RawMessage(s.values[0]), nil
}

func (s setting) not(want nutshell.Kind) error {
	return cli.Usage(fmt.Errorf("%s: %.80q is not %s", s.key, s.values[0], want))
}

// texts returns the elements of a list.
func (s setting) texts(f nutshell.Field) []string {
	if f.Sentences {
		return s.values
	}
	all := []string{}
	for _, v := range s.values {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

// unknown returns the error for a key that the specification does not have.
func (s setting) unknown() error {
	err := cli.Usage(fmt.Errorf("%s is not a field of the specification", s.key))
	best, least := "", 4
	for _, known := range nutshell.Fields() {
		if d := distance(s.key, known); d < least {
			best, least = known, d
		}
	}
	if best != "" {
		return cli.WithHint(err, fmt.Sprintf("did you mean %s?", best))
	}
	return cli.WithHint(err, "your own fields go below tags.custom or extensions; --force sets it all the same")
}

// distance returns how many bytes must be added, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			other := left
			if a[i] != b[j] {
				other++
			}
			left = row[j+1]
			row[j+1] = min(other, left+1, row[j]+1)
		}
	}
	return row[len(b)]
}
