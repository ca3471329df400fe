package verify_test

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"fiatjaf.com/nostr/nip44"

	"guild"
	"guild/verify"
)

// vectors are the test vectors of NIP-44 for single messages.
type vectors struct {
	MessageKeys struct {
		ConversationKey string `json:"conversation_key"`
		Keys            []struct {
			Nonce       string `json:"nonce"`
			ChaChaKey   string `json:"chacha_key"`
			ChaChaNonce string `json:"chacha_nonce"`
			HMACKey     string `json:"hmac_key"`
		} `json:"keys"`
	} `json:"get_message_keys"`
	Good []message `json:"encrypt_decrypt"`
	Bad  []message `json:"invalid_decrypt"`
}

type message struct {
	ConversationKey string `json:"conversation_key"`
	Plaintext       string `json:"plaintext"`
	Payload         string `json:"payload"`
	Note            string `json:"note"`
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/nip44.json")
	ok(t, err)
	ok(t, json.Unmarshal(b, &v))
	return v
}

func conversation(t testing.TB, digits string) (k [32]byte) {
	t.Helper()
	if _, err := hex.Decode(k[:], []byte(digits)); err != nil {
		t.Fatal(err)
	}
	return k
}

// openingOf derives the opening of a payload from the conversation key (NIP-44).
func openingOf(t testing.TB, key [32]byte, payload string) (o verify.Opening) {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(payload)
	if err != nil || len(b) < 33 {
		return o // opens nothing
	}
	return verify.Opening(must[[]byte](t)(hkdf.Expand(sha256.New, key[:], string(b[1:33]), len(o))))
}

func TestOpening(t *testing.T) {
	for i, m := range readVectors(t).Good {
		o := openingOf(t, conversation(t, m.ConversationKey), m.Payload)
		again, err := verify.ParseOpening(o.String())
		if err != nil || again != o || len(o.String()) != 152 {
			t.Errorf("message %d: %s is read as %s, %v", i, o, again, err)
		}
		if text, err := again.Open(m.Payload); err != nil || text != m.Plaintext {
			t.Errorf("message %d: %q, %v", i, text, err)
		}
	}
}

func TestOpeningKeysNIP44(t *testing.T) {
	v := readVectors(t).MessageKeys
	for _, k := range v.Keys {
		nonce := must[[]byte](t)(hex.DecodeString(k.Nonce))
		payload := base64.StdEncoding.EncodeToString(append(append([]byte{2}, nonce...), make([]byte, 66)...))
		o := openingOf(t, conversation(t, v.ConversationKey), payload)
		if want := k.ChaChaKey + k.ChaChaNonce + k.HMACKey; o.String() != want {
			t.Errorf("%s, want %s", o, want)
		}
	}
}

func TestOpeningOfOtherMessage(t *testing.T) {
	messages := readVectors(t).Good
	for i, m := range messages {
		o := openingOf(t, conversation(t, m.ConversationKey), m.Payload)
		for j, other := range messages {
			if text, err := o.Open(other.Payload); i != j && !errors.Is(err, verify.ErrOpening) {
				t.Errorf("the keys of message %d open message %d: %q, %v", i, j, text, err)
			}
		}
	}
}

func TestInvalidPayloads(t *testing.T) {
	for _, m := range readVectors(t).Bad {
		if _, err := openingOf(t, conversation(t, m.ConversationKey), m.Payload).Open(m.Payload); err == nil {
			t.Errorf("opened: %s", m.Note)
		}
	}
	for name, s := range map[string]string{
		"nothing": "", "upper case": strings.Repeat("AB", 76), "too short": strings.Repeat("ab", 75), "a line more": strings.Repeat("ab", 76) + "\n",
	} {
		if o, err := verify.ParseOpening(s); err == nil {
			t.Errorf("%s is read as %s", name, o)
		}
	}
}

func TestOpenLongMessage(t *testing.T) {
	key := [32]byte(guild.Sum([]byte("conversation")))
	for _, size := range []int{1, 31, 32, 33, 1000, 65535, 65536, 300_000} {
		text := strings.Repeat("é", size)[:size&^1] + strings.Repeat("x", size&1)
		payload := must[string](t)(nip44.Encrypt(text, key))
		o := openingOf(t, key, payload)
		if got, err := o.Open(payload); err != nil || got != text {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
}

func FuzzOpening(f *testing.F) {
	for _, m := range readVectors(f).Good {
		f.Add(m.Payload, m.ConversationKey)
	}
	for _, m := range readVectors(f).Bad {
		f.Add(m.Payload, m.ConversationKey)
	}
	f.Fuzz(func(t *testing.T, payload, digits string) {
		if o, err := verify.ParseOpening(digits); err == nil && o.String() != digits {
			t.Fatalf("%q became %q", digits, o)
		}
		key := [32]byte(guild.Sum([]byte(digits)))
		if b, err := hex.DecodeString(digits); err == nil && len(b) == len(key) {
			key = [32]byte(b)
		}
		text, err := openingOf(t, key, payload).Open(payload)
		library, otherwise := nip44.Decrypt(payload, key)
		if err == nil && (otherwise != nil || text != library) {
			t.Fatalf("opened as %q, and by the conversation key as %q, %v", text, library, otherwise)
		}
	})
}
