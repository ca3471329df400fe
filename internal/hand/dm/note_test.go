package dm

import (
	"context"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
)

func TestNoteRoundTrip(t *testing.T) {
	e, err := Note(t.Context(), alice, alice.key, "guild.test", "it is written", 1_790_000_000)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Verify(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(e.String(), "written") || e.Tags.GetD() != "guild.test" || e.CreatedAt != 1_790_000_000 {
		t.Errorf("%s", e)
	}
	if content, err := ReadNote(t.Context(), alice, alice.key, "guild.test", v); err != nil || content != "it is written" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := ReadNote(t.Context(), bob, bob.key, "guild.test", v); reasonOf(err) != guild.Unexpected {
		t.Errorf("somebody else's: %v", err)
	}
	if _, err := ReadNote(t.Context(), alice, alice.key, "guild.other", v); reasonOf(err) != guild.Unexpected {
		t.Errorf("under another name: %v", err)
	}
	if _, err := Note(t.Context(), alice, alice.key, "guild.test", strings.Repeat("x", MaxRumor+1), 1); err == nil {
		t.Error("a note was made that few relays take")
	}
}

// counting counts decryptions.
type counting struct {
	person
	asked *int
}

func (c counting) Decrypt(ctx context.Context, text string, from nostr.PubKey) (string, error) {
	*c.asked++
	return c.person.Decrypt(ctx, text, from)
}

func TestOpenFromDecryptsOneLayer(t *testing.T) {
	v, _ := wrapped(t, Message{Content: "hello"})
	asked := 0
	_, err := OpenFrom(t.Context(), counting{bob, &asked}, bob.key, v, func(p nostr.PubKey) bool { return p != alice.key })
	if reasonOf(err) != guild.Flood || asked != 1 {
		t.Errorf("%v after %d layers", err, asked)
	}
}
