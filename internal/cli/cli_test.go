package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func TestCutKeepsWithinItsColumns(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "short": "short", "exactly 10": "exactly 10", "one more 11": "one more …", "漢字漢字漢字": "漢字漢字…",
	} {
		if got := cli.Cut(text, 10); got != want || lipgloss.Width(got) > 10 {
			t.Errorf("cut(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b]8;;http://evil\x07link\x1b]8;;\x07", 10)
	f.Add("a\u202eb\u2028c\x00\x9b31m", 3)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		got := cli.Cut(cli.Clean(text), columns%200)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e }) {
			t.Errorf("%q would drive a terminal", got)
		}
	})
}

func TestExitCodesAndHints(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"none":              {nil, 0, ""},
		"plain":             {errors.New("x"), 1, "p: x\n"},
		"usage":             {cli.Usage(errors.New("x")), 2, "p: x\n"},
		"usage with a hint": {fmt.Errorf("w: %w", cli.WithHint(cli.Usage(errors.New("x")), "y")), 2, "p: w: x\nhint: y\n"},
		"the outer hint":    {cli.WithHint(cli.WithHint(errors.New("x"), "inner"), "outer"), 1, "p: x\nhint: outer\n"},
		"cancelled":         {fmt.Errorf("x: %w", context.Canceled), 130, "p: x: context canceled\n"},
		"shown already":     {cli.Shown(errors.New("x")), 1, ""},
		"shown, with code":  {cli.Shown(cli.WithCode(errors.New("x"), 5)), 5, ""},
		"not for terminals": {errors.New("bad\x1b[2J\np: fake"), 1, "p: bad·[2J p: fake\n"},
	} {
		var b bytes.Buffer
		cli.Report(&b, "p", c.err, cli.HintOf(c.err))
		if got := cli.CodeOf(c.err); got != c.code || b.String() != c.says {
			t.Errorf("%s: exit %d and %q, want %d and %q", name, got, b.String(), c.code, c.says)
		}
	}
}

func TestGroupSuggestsVerb(t *testing.T) {
	root := cli.Root(&cobra.Command{Use: "p"})
	cli.Group(root, &cobra.Command{Use: "pack", RunE: func(*cobra.Command, []string) error { return nil }, Args: cli.OneArg("a file")})
	for args, want := range map[string]string{
		"pakc": `did you mean "pack"?`, "xyz": "p --help lists them", "pack": "p pack [flags]", "pack a --no": "p pack --help lists the flags",
	} {
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		if cli.CodeOf(err) != cli.ExitUsage || cli.HintOf(err) != want {
			t.Errorf("%s: exit %d, hint %q, want %q", args, cli.CodeOf(err), cli.HintOf(err), want)
		}
	}
}

func TestJSONIsSafeForTerminal(t *testing.T) {
	var b bytes.Buffer
	if err := cli.PrintLine(&b, "a\u202eb\u009bc<d>"); err != nil || b.String() != "\"a\\u202eb\\u009bc<d>\"\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
