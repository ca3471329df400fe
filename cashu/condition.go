package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kinds of spending conditions.
const (
	P2PK = "P2PK" // by keys (NUT-11)
	HTLC = "HTLC" // by a preimage, and keys if there are any (NUT-14)
)

// Condition is a secret that says who can spend a proof (NUT-10). The mint enforces it.
//
// Until Locktime, and after it, Sigs of Keys are needed, and of an HTLC the preimage. After Locktime RefundSigs of Refund are
// enough, or nothing if there is no Refund.
type Condition struct {
	Kind       string
	Nonce      string   // makes the secret unique
	Hash       [32]byte // of the preimage, for HTLC
	Keys       []Point  // at least one for P2PK
	Sigs       int      // at least 1 if there are Keys
	Locktime   int64    // Unix seconds; 0 for never
	Refund     []Point
	RefundSigs int  // at least 1 if there is Refund
	All        bool // SIG_ALL: what is signed is the whole transaction, not the secret alone
}

// Bounds of secrets and witnesses.
const (
	maxSecret = 4 << 10 // bytes
	maxTags   = 32
	maxKeysOf = 16 // keys of a condition, and signatures of a witness
)

type condition struct {
	Nonce string     `json:"nonce"`
	Data  string     `json:"data"`
	Tags  [][]string `json:"tags,omitempty"`
}

// ParseCondition returns the condition in a secret. ok is false for a secret without one, which anybody can spend. A secret with
// a condition that is malformed, or of an unknown kind, is an error: a mint must not let anybody spend it.
func ParseCondition(secret string) (c Condition, ok bool, err error) {
	var parts []jsontext.Value
	if len(secret) > maxSecret {
		return c, true, fmt.Errorf("a secret of %d bytes; at most %d are read", len(secret), maxSecret)
	}
	// Other programs may read a list with duplicate names, invalid UTF-8 or NaN as a condition, so none is taken as unlocked here.
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err = json.Unmarshal([]byte(secret), &parts, lenient)
	switch {
	case err != nil && strings.HasPrefix(strings.TrimSpace(secret), "["):
		return c, true, fmt.Errorf("spending condition: %w", err)
	case err != nil || len(parts) != 2 || json.Unmarshal(parts[0], &c.Kind, lenient) != nil:
		return Condition{}, false, nil
	}
	var wire condition
	if err := json.Unmarshal(parts[1], &wire); err != nil {
		return c, true, fmt.Errorf("spending condition: %w", err)
	}
	c.Nonce = wire.Nonce
	switch c.Kind {
	case P2PK:
		key, err := ParsePoint(wire.Data)
		if err != nil {
			return c, true, fmt.Errorf("spending condition: %w", err)
		}
		c.Keys = []Point{key}
	case HTLC:
		b, err := hex.DecodeString(wire.Data)
		if err != nil || copy(c.Hash[:], b) != len(c.Hash) || len(b) != len(c.Hash) {
			return c, true, fmt.Errorf("spending condition: %.80q is not a hash", wire.Data)
		}
	default:
		return c, true, fmt.Errorf("spending condition: the kind %.30q is unknown", c.Kind)
	}
	if err := c.tags(wire.Tags); err != nil {
		return c, true, fmt.Errorf("spending condition: %w", err)
	}
	return c, true, nil
}

// tags reads the tags of NUT-11. Others are ignored.
func (c *Condition) tags(tags [][]string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%d tags; at most %d are read", len(tags), maxTags)
	}
	seen := map[string]bool{}
	for _, tag := range tags {
		if len(tag) == 0 {
			return errors.New("an empty tag")
		}
		name, values := tag[0], tag[1:]
		var err error
		switch name {
		case "sigflag":
			err = c.flag(values)
		case "pubkeys":
			err = appendKeys(&c.Keys, values)
		case "refund":
			err = appendKeys(&c.Refund, values)
		case "n_sigs":
			c.Sigs, err = count(values)
		case "n_sigs_refund":
			c.RefundSigs, err = count(values)
		case "locktime":
			c.Locktime, err = unixSeconds(values)
		default:
			continue
		}
		if err == nil && seen[name] {
			err = errors.New("it is a duplicate")
		}
		if err != nil {
			return fmt.Errorf("tag %s: %w", name, err)
		}
		seen[name] = true
	}
	if err := needed("n_sigs", &c.Sigs, c.Keys); err != nil {
		return err
	}
	return needed("n_sigs_refund", &c.RefundSigs, c.Refund)
}

func (c *Condition) flag(values []string) error {
	if len(values) != 1 || values[0] != "SIG_INPUTS" && values[0] != "SIG_ALL" {
		return fmt.Errorf("%.40q is unknown", values)
	}
	c.All = values[0] == "SIG_ALL"
	return nil
}

func appendKeys(keys *[]Point, values []string) error {
	if len(*keys)+len(values) > maxKeysOf {
		return fmt.Errorf("over %d keys", maxKeysOf)
	}
	for _, v := range values {
		key, err := ParsePoint(v)
		if err != nil {
			return err
		}
		*keys = append(*keys, key)
	}
	return nil
}

// unixSeconds parses a locktime. A mint may read another form as some time, so it is refused.
func unixSeconds(values []string) (int64, error) {
	if len(values) != 1 {
		return 0, errors.New("want one time")
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != values[0] {
		return 0, fmt.Errorf("%.30q is not a time in Unix seconds", values[0])
	}
	return n, nil
}

func count(values []string) (int, error) {
	if len(values) != 1 {
		return 0, errors.New("want one number")
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%.20q is not a number of signatures", values[0])
	}
	return n, nil
}

// needed checks that so many of the keys can sign, and sets 1 if nothing is said. Keys are equal if their x coordinates are, since
// a Schnorr signature does not tell them apart.
func needed(tag string, n *int, keys []Point) error {
	distinct := map[[32]byte]bool{}
	for _, k := range keys {
		distinct[[32]byte(k[1:])] = true
	}
	if *n == 0 && len(keys) > 0 {
		*n = 1
	}
	if *n > len(distinct) {
		return fmt.Errorf("tag %s: %d signatures of %d keys", tag, *n, len(distinct))
	}
	return nil
}

// Secret returns the condition as the secret of a proof. It fails if nobody could ever spend that, or no mint would read it.
func (c Condition) Secret() (string, error) {
	secret, err := c.encode()
	if err == nil {
		_, _, err = ParseCondition(secret)
	}
	return secret, err
}

func (c Condition) encode() (string, error) {
	wire := condition{Nonce: c.Nonce, Data: hex.EncodeToString(c.Hash[:])}
	more := c.Keys
	if c.Kind == P2PK && len(c.Keys) > 0 {
		wire.Data, more = c.Keys[0].String(), c.Keys[1:]
	}
	tag := func(name string, values ...string) { wire.Tags = append(wire.Tags, append([]string{name}, values...)) }
	if c.All {
		tag("sigflag", "SIG_ALL")
	}
	if len(more) > 0 {
		tag("pubkeys", texts(more)...)
	}
	if c.Sigs > 1 {
		tag("n_sigs", strconv.Itoa(c.Sigs))
	}
	if c.Locktime > 0 {
		tag("locktime", strconv.FormatInt(c.Locktime, 10))
	}
	if len(c.Refund) > 0 {
		tag("refund", texts(c.Refund)...)
	}
	if c.RefundSigs > 1 {
		tag("n_sigs_refund", strconv.Itoa(c.RefundSigs))
	}
	b, err := json.Marshal([]any{c.Kind, wire})
	if err != nil {
		return "", fmt.Errorf("spending condition: %w", err)
	}
	return string(b), nil
}

func texts(keys []Point) (all []string) {
	for _, k := range keys {
		all = append(all, k.String())
	}
	return all
}

// Witness opens a condition (NUT-11, NUT-14).
type Witness struct {
	Preimage   string   `json:"preimage,omitempty"` // hex
	Signatures []string `json:"signatures,omitempty"`
}

// ParseWitness parses the witness of a proof.
func ParseWitness(s WitnessText) (w Witness, err error) {
	if len(s) > maxSecret*4 {
		return w, fmt.Errorf("a witness of %d bytes; at most %d are read", len(s), maxSecret*4)
	}
	if err := json.Unmarshal([]byte(s), &w); err != nil {
		return w, fmt.Errorf("witness: %w", err)
	}
	if len(w.Signatures) > maxKeysOf {
		return w, fmt.Errorf("a witness with over %d signatures", maxKeysOf)
	}
	return w, nil
}

// Text returns the witness as it is in a proof.
func (w Witness) Text() WitnessText {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // hex
	}
	return WitnessText(b)
}

// WitnessText is a Witness in JSON, as a text in a proof.
type WitnessText string

// UnmarshalJSON implements json.Unmarshaler. It also accepts an object, which some wallets write.
func (t *WitnessText) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '{' {
		*t = WitnessText(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// Sign adds the signature by a private key on a message: the secret of a proof, or Message for SIG_ALL.
func (w *Witness) Sign(key Scalar, message string) error {
	private, _ := btcec.PrivKeyFromBytes(key[:])
	digest := sha256.Sum256([]byte(message))
	signature, err := schnorr.Sign(private, digest[:])
	if err != nil {
		return fmt.Errorf("sign ecash: %w", err)
	}
	w.Signatures = append(w.Signatures, hex.EncodeToString(signature.Serialize()))
	return nil
}

// Check returns an error if the witness does not open the condition at a time. The signatures are on message: the secret of the
// proof, or Message for SIG_ALL.
func (c Condition) Check(message string, w Witness, now time.Time) error {
	if c.Kind != P2PK && c.Kind != HTLC || c.Kind == P2PK && len(c.Keys) == 0 {
		return errors.New("not a spending condition")
	}
	expired := c.Locktime > 0 && now.Unix() > c.Locktime
	if expired && (len(c.Refund) == 0 || w.signers(c.Refund, message) >= max(c.RefundSigs, 1)) {
		return nil
	}
	if c.Kind == HTLC {
		preimage, err := hex.DecodeString(w.Preimage)
		if err != nil || len(preimage) != 32 || sha256.Sum256(preimage) != c.Hash {
			return errors.New("wrong preimage")
		}
	}
	need := c.Sigs
	if len(c.Keys) > 0 {
		need = max(need, 1)
	}
	if n := w.signers(c.Keys, message); n < need {
		return fmt.Errorf("%d of %d signatures", n, need)
	}
	return nil
}

// signers counts the keys that signed a message.
func (w Witness) signers(keys []Point, message string) (n int) {
	digest := sha256.Sum256([]byte(message))
	left, counted := slices.Clone(w.Signatures), map[[32]byte]bool{}
	for _, k := range keys {
		x := [32]byte(k[1:])
		i := slices.IndexFunc(left, func(s string) bool { return signedBy(s, x, digest) })
		if i < 0 || counted[x] {
			continue
		}
		counted[x] = true
		left = slices.Delete(left, i, i+1) // one signature is by one key
		n++
	}
	return n
}

// signedBy reports whether a signature in hex on a digest is by the key with that x coordinate.
func signedBy(signature string, x, digest [32]byte) bool {
	b, err := hex.DecodeString(signature)
	if err != nil {
		return false
	}
	parsed, err := schnorr.ParseSignature(b)
	if err != nil {
		return false
	}
	key, err := schnorr.ParsePubKey(x[:])
	return err == nil && parsed.Verify(digest[:], key)
}

// Message returns the text that is signed for SIG_ALL: all inputs and outputs of a swap, or of a melt with its quote (NUT-11).
func Message(inputs []Proof, outputs []Output, quote string) string {
	var b strings.Builder
	for _, p := range inputs {
		b.WriteString(p.Secret + p.C.String())
	}
	for _, o := range outputs {
		b.WriteString(strconv.FormatUint(o.Amount, 10) + o.B.String())
	}
	b.WriteString(quote)
	return b.String()
}

// CheckInputs returns an error if the inputs of a swap or a melt may not be spent so at a time, by the conditions in their
// secrets, or if one is there twice. quote is that of a melt, else empty. Whether the mint signed the inputs, and whether they are
// spent, is not checked.
func CheckInputs(inputs []Proof, outputs []Output, quote string, now time.Time) error {
	if len(inputs) > MaxProofs {
		return fmt.Errorf("%d inputs; at most %d are taken", len(inputs), MaxProofs)
	}
	conditions, seen := make([]Condition, len(inputs)), map[string]bool{}
	all := false
	for i, p := range inputs {
		if seen[p.Secret] {
			return fmt.Errorf("input %d is there twice", i+1)
		}
		seen[p.Secret] = true
		c, ok, err := ParseCondition(p.Secret)
		if err != nil {
			return fmt.Errorf("input %d: %w", i+1, err)
		}
		if ok {
			conditions[i], all = c, all || c.All
		}
	}
	for i, c := range conditions {
		message := inputs[i].Secret
		if all {
			if !c.same(conditions[0]) {
				return fmt.Errorf("input %d has another condition than the first, and one of them is signed with all inputs", i+1)
			}
			if i > 0 {
				continue
			}
			message = Message(inputs, outputs, quote)
		}
		if c.Kind == "" {
			continue
		}
		var w Witness
		if inputs[i].Witness != "" {
			var err error
			if w, err = ParseWitness(inputs[i].Witness); err != nil {
				return fmt.Errorf("input %d: %w", i+1, err)
			}
		}
		if err := c.Check(message, w, now); err != nil {
			return fmt.Errorf("input %d: %w", i+1, err)
		}
	}
	return nil
}

// same reports whether two conditions are equal but for their nonces.
func (c Condition) same(d Condition) bool {
	c.Nonce, d.Nonce = "", ""
	return reflect.DeepEqual(c, d)
}
