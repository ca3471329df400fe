package nip90

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
)

// Parcel is a bundle in transit: its bytes, or their URL.
type Parcel struct {
	Hash   guild.Hash // of the plaintext bundle
	Size   int64      // of the plaintext bundle, in bytes
	Inline []byte     // the bundle, at most MaxInline bytes; or
	URL    string     // URL of the bytes, http or https
	Key    *[32]byte  // decrypts the bytes at URL; nil if they are not encrypted
}

// NewParcel returns a parcel with the bundle inline. The bundle must be small enough for an event.
func NewParcel(bundle []byte) Parcel {
	return Parcel{Hash: guild.Sum(bundle), Size: int64(len(bundle)), Inline: bundle}
}

// String describes the parcel without its bytes and its key.
func (p Parcel) String() string {
	where := cmp.Or(p.URL, "inline")
	return fmt.Sprintf("bundle %.8s of %d bytes, %s", p.Hash.Hex(), p.Size, where)
}

// Format prevents every format verb from printing the key.
func (p Parcel) Format(s fmt.State, _ rune) { fmt.Fprint(s, p.String()) }

// MarshalJSON returns an error, because the JSON can contain a key; only Encode writes it.
func (p Parcel) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a parcel is serialized by Encode")
}

// check returns the fault of a parcel that was received or is to be sent.
func (p Parcel) check() error {
	switch {
	case p.Hash.IsZero():
		return fmt.Errorf("no hash: %w", ErrMalformed)
	case p.Size <= 0:
		return fmt.Errorf("size %d: %w", p.Size, ErrMalformed)
	case (len(p.Inline) > 0) == (p.URL != ""):
		return fmt.Errorf("neither or both of bytes and URL: %w", ErrMalformed)
	case p.URL != "" && !isHTTPURL(p.URL):
		return fmt.Errorf("URL %.80q: %w", p.URL, ErrMalformed)
	case p.URL != "":
		return nil
	case p.Key != nil:
		return fmt.Errorf("a key for bytes that are here: %w", ErrMalformed)
	case len(p.Inline) > MaxInline:
		return fmt.Errorf("%d bytes inline: %w", len(p.Inline), ErrTooBig)
	case int64(len(p.Inline)) != p.Size || guild.Sum(p.Inline) != p.Hash:
		return fmt.Errorf("the bytes do not match their hash and size: %w", ErrMalformed)
	}
	return nil
}

// parcelWire is the content of a result with a delivery.
type parcelWire struct {
	V      int    `json:"v"`
	Hash   string `json:"delivery_sha256"` // bare hex
	Size   int64  `json:"size"`
	Bundle string `json:"bundle,omitempty"` // standard base64
	URL    string `json:"url,omitempty"`
	Key    string `json:"key,omitempty"` // hex
}

// Encode returns the parcel as the content of a result.
func (p Parcel) Encode() (string, error) {
	if err := p.check(); err != nil {
		return "", fmt.Errorf("delivery: %w", err)
	}
	w := parcelWire{V: 1, Hash: p.Hash.Hex(), Size: p.Size, URL: p.URL}
	if p.URL == "" {
		w.Bundle = base64.StdEncoding.EncodeToString(p.Inline)
	}
	if p.Key != nil {
		w.Key = hex.EncodeToString(p.Key[:])
	}
	b, err := json.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("delivery: %w", err)
	}
	return string(b), nil
}

// DecodeParcel parses the form of Encode and checks inline bytes against their hash and size. A content in another
// form is ErrNoBundle: it is a plain result.
func DecodeParcel(content string) (Parcel, error) {
	p, err := decodeParcel(content)
	if err != nil {
		return Parcel{}, fmt.Errorf("delivery: %w", err)
	}
	return p, nil
}

func decodeParcel(content string) (Parcel, error) {
	var w parcelWire
	if len(content) > MaxText {
		return Parcel{}, fmt.Errorf("%d bytes: %w", len(content), ErrTooBig)
	}
	if !claimsParcel(content) {
		return Parcel{}, ErrNoBundle
	}
	if err := json.Unmarshal([]byte(content), &w); err != nil {
		return Parcel{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if w.V != 1 {
		return Parcel{}, fmt.Errorf("version %d: %w", w.V, ErrMalformed)
	}
	p := Parcel{Size: w.Size, URL: w.URL}
	var err error
	if p.Hash, err = guild.ParseHash(w.Hash); err != nil {
		return Parcel{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if p.Inline, err = decodeInline(w.Bundle); err != nil {
		return Parcel{}, err
	}
	if p.Key, err = parseKey(w.Key); err != nil {
		return Parcel{}, err
	}
	return p, p.check()
}

// claimsParcel reports whether a content is meant as a delivery: a JSON object with the hash of one, or a cut-off
// beginning of such an object. The latter must be an error, not a plain result.
func claimsParcel(content string) bool {
	const name, early = "delivery_sha256", 512 // bytes in which the name must occur in a cut-off content
	content = strings.TrimSpace(content)
	if !strings.HasPrefix(content, "{") {
		return false
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal([]byte(content), &members); err == nil {
		_, ok := members[name]
		return ok
	}
	return strings.Contains(content[:min(early, len(content))], strconv.Quote(name))
}

// decodeInline decodes an inline bundle. It checks the length of the text first, so that an oversized one is not
// decoded.
func decodeInline(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > base64.StdEncoding.EncodedLen(MaxInline) {
		return nil, fmt.Errorf("%d bytes of base64 inline: %w", len(text), ErrTooBig)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("inline bundle: %w: %w", ErrMalformed, err)
	}
	return b, nil
}

// parseKey parses a key. Its error does not contain it.
func parseKey(s string) (*[32]byte, error) {
	if s == "" {
		return nil, nil
	}
	key, ok := parseHex32(s)
	if !ok {
		return nil, fmt.Errorf("bundle key: want 64 hex digits: %w", ErrMalformed)
	}
	return &key, nil
}

// SetBundle sets the bundle of r: an input and its parameters. It replaces earlier ones. With a key, r can only be
// sent with Sealed.
func (r *Request) SetBundle(p Parcel) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	in := Input{Data: p.URL, Type: "url", Marker: MarkerBundle}
	if p.URL == "" {
		in = Input{Data: base64.StdEncoding.EncodeToString(p.Inline), Type: "text", Marker: MarkerBundle}
	}
	r.Inputs = slices.DeleteFunc(slices.Clone(r.Inputs), Input.isBundle)
	r.Inputs = append(r.Inputs, in)
	r.Set(ParamBundleSHA256, p.Hash.Hex())
	r.Set(ParamBundleSize, strconv.FormatInt(p.Size, 10))
	r.Unset(ParamBundleKey)
	if p.Key != nil {
		r.Set(ParamBundleKey, hex.EncodeToString(p.Key[:]))
	}
	return nil
}

func (in Input) isBundle() bool { return in.Marker == MarkerBundle }

// Bundle returns the bundle of r. Inline bytes are checked. A request without a bundle is ErrNoBundle.
func (r Request) Bundle() (Parcel, error) {
	p, err := r.bundle()
	if err != nil {
		return Parcel{}, fmt.Errorf("bundle: %w", err)
	}
	return p, nil
}

// bundle reads the input and the parameters of the bundle. It requires the hash also for an inline bundle, so that a
// damaged bundle is found.
func (r Request) bundle() (p Parcel, err error) {
	i := slices.IndexFunc(r.Inputs, Input.isBundle)
	if i < 0 {
		return Parcel{}, ErrNoBundle
	}
	if p.Hash, err = guild.ParseHash(r.Get(ParamBundleSHA256)); err != nil {
		return Parcel{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if p.Key, err = parseKey(r.Get(ParamBundleKey)); err != nil {
		return Parcel{}, err
	}
	switch in := r.Inputs[i]; in.Type {
	case "url":
		p.URL = in.Data
	case "text":
		p.Inline, err = decodeInline(in.Data)
	default:
		err = fmt.Errorf("input of type %.20q: %w", in.Type, ErrMalformed)
	}
	if err != nil {
		return Parcel{}, err
	}
	p.Size = int64(len(p.Inline))
	if text := r.Get(ParamBundleSize); text != "" {
		if p.Size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return Parcel{}, fmt.Errorf("size %.40q: %w", text, ErrMalformed)
		}
	}
	return p, p.check()
}

// Delivery returns the delivery bundle of r. A key in a result that came in clear is ErrSecret, because everyone could
// read it.
func (r Result) Delivery() (Parcel, error) {
	p, err := DecodeParcel(r.Content)
	if err != nil {
		return Parcel{}, err
	}
	if p.Key != nil && r.Encrypted == "" {
		return Parcel{}, fmt.Errorf("delivery: %w", ErrSecret)
	}
	return p, nil
}

// SetDelivery sets the content of r. With a key, r can only be sent with Sealed.
func (r *Result) SetDelivery(p Parcel) error {
	content, err := p.Encode()
	if err != nil {
		return err
	}
	r.Content = content
	return nil
}

// holdsKey reports whether a content is a delivery with a key.
func holdsKey(content string) bool {
	var w struct {
		Hash jsontext.Value `json:"delivery_sha256"`
		Key  jsontext.Value `json:"key"`
	}
	if !bytes.HasPrefix(bytes.TrimSpace([]byte(content)), []byte("{")) {
		return false
	}
	return json.Unmarshal([]byte(content), &w) == nil && w.Hash != nil && w.Key != nil
}
