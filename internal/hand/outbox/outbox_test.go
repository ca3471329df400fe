package outbox

import (
	"fmt"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/key"
)

func sign(t *testing.T, o *Outbox, content string) nostr.Event {
	t.Helper()
	e, err := o.Sign(t.Context(), nostr.Event{Kind: 1, Content: content})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOwnEvents(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	o := New(key.NewSigner(key.NewSecret(nostr.SecretKey{31: 1})), func() time.Time { return at })
	e := sign(t, o, "x")
	if e.CreatedAt.Time() != at {
		t.Errorf("it is dated %s", e.CreatedAt.Time())
	}
	forged := e
	forged.Sig[0]++
	if v, err := o.Own(forged); err != nil || v.Event().Sig != e.Sig {
		t.Errorf("got the argument instead of the signed event: %v", err)
	}
	if _, err := o.Own(forged); err == nil {
		t.Error("an unknown event with a false signature is accepted")
	}
	if v, err := o.Own(e); err != nil || v.Event().ID != e.ID {
		t.Errorf("a forgotten event is refused: %v", err)
	}
}

func TestOutboxIsBounded(t *testing.T) {
	o := New(key.NewSigner(key.NewSecret(nostr.SecretKey{31: 1})), time.Now)
	for i := range most + 10 {
		sign(t, o, fmt.Sprint(i))
	}
	if len(o.signed) != most || len(o.order) != most {
		t.Errorf("%d events are remembered, %d in their order", len(o.signed), len(o.order))
	}
}
