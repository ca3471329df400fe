package cashu

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
)

// Point is a compressed point of secp256k1 that is not at infinity. In JSON it is 66 hex digits.
type Point [33]byte

// ParsePoint parses a point in hex.
func ParsePoint(s string) (p Point, err error) { return p, p.UnmarshalText([]byte(s)) }

// String returns the point in hex.
func (p Point) String() string { return hex.EncodeToString(p[:]) }

// MarshalText implements encoding.TextMarshaler.
func (p Point) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It refuses what is not on the curve.
func (p *Point) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(p) {
		return fmt.Errorf("%.80q is not a compressed point", text)
	}
	return p.set(b)
}

// set takes the bytes of a compressed point.
func (p *Point) set(b []byte) error {
	if len(b) != len(p) {
		return fmt.Errorf("a point of %d bytes", len(b))
	}
	if j, err := btcec.ParseJacobian(b); err != nil || atInfinity(&j) {
		return fmt.Errorf("%x is not a point", b)
	}
	copy(p[:], b)
	return nil
}

// jacobian returns the coordinates. The zero Point, of a missing or null member, has those of the point at infinity.
func (p Point) jacobian() btcec.JacobianPoint {
	j, err := btcec.ParseJacobian(p[:])
	if err != nil {
		return btcec.JacobianPoint{}
	}
	return j
}

var errInfinity = errors.New("the point at infinity")

// compressed returns a point, or errInfinity.
func compressed(j btcec.JacobianPoint) (p Point, err error) {
	if atInfinity(&j) {
		return Point{}, errInfinity
	}
	j.ToAffine()
	copy(p[:], btcec.NewPublicKey(&j.X, &j.Y).SerializeCompressed())
	return p, nil
}

func atInfinity(j *btcec.JacobianPoint) bool { return j.Z.IsZero() || j.X.IsZero() && j.Y.IsZero() }

// Scalar is a private key of a mint or a wallet, or a blinding factor: a number from 1 to the order of the curve less 1. In JSON
// it is 64 hex digits. Copies of it are not erased, and what is computed with it does not take constant time.
type Scalar [32]byte

// RandomScalar returns a new scalar.
func RandomScalar() (s Scalar) {
	for ok := false; !ok; {
		rand.Read(s[:]) // never fails
		ok = s.check() == nil
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (s Scalar) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It refuses zero and what is not less than the order of the curve.
func (s *Scalar) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("%.80q is not a scalar", text)
	}
	return s.set(b)
}

func (s *Scalar) set(b []byte) error {
	var parsed Scalar
	if copy(parsed[:], b) != len(parsed) || len(b) != len(parsed) {
		return fmt.Errorf("a scalar of %d bytes", len(b))
	}
	if err := parsed.check(); err != nil {
		return err
	}
	*s = parsed
	return nil
}

func (s Scalar) check() error {
	var n btcec.ModNScalar
	if n.SetByteSlice(s[:]) || n.IsZero() {
		return errors.New("a scalar that is zero, or not less than the order of the curve")
	}
	return nil
}

func (s Scalar) mod() *btcec.ModNScalar {
	var n btcec.ModNScalar
	n.SetByteSlice(s[:])
	return &n
}

// PubKey returns the public key of a private key.
func (s Scalar) PubKey() (p Point) {
	_, key := btcec.PrivKeyFromBytes(s[:])
	copy(p[:], key.SerializeCompressed())
	return p
}

// HashToCurve returns the point of a secret (NUT-00), by which a mint knows what is spent.
func HashToCurve(secret string) (p Point) {
	inner := sha256.Sum256([]byte("Secp256k1_HashToCurve_Cashu_" + secret))
	for counter := uint32(0); ; counter++ { // every second one is a point
		x := sha256.Sum256(binary.LittleEndian.AppendUint32(inner[:], counter))
		if p.set(append([]byte{2}, x[:]...)) == nil {
			return p
		}
	}
}

// Blind returns the blinded message of a secret, by a blinding factor that is used for nothing else (NUT-00).
func Blind(secret string, r Scalar) (Point, error) {
	return compressed(add(HashToCurve(secret).jacobian(), base(r.mod()))) // Y + r·G
}

// Sign returns the mint's signature on a blinded message (NUT-00).
func (s Scalar) Sign(b Point) (Point, error) { return compressed(times(s.mod(), b.jacobian())) }

// Unblind returns the mint's signature on a secret, from that on the message that was blinded by r (NUT-00).
func Unblind(c Point, r Scalar, key Point) (Point, error) {
	return compressed(add(c.jacobian(), times(negated(r.mod()), key.jacobian()))) // C' − r·A
}

// Signed reports whether c is the signature on a secret by the mint's private key (NUT-00).
func (s Scalar) Signed(secret string, c Point) bool {
	want, err := s.Sign(HashToCurve(secret))
	return err == nil && want == c
}

// DLEQ proves that the mint signed with the private key of its public key (NUT-12).
type DLEQ struct {
	E Scalar  `json:"e"`
	S Scalar  `json:"s"`
	R *Scalar `json:"r,omitempty"` // the blinding factor, for others than the mint
}

// Prove returns the proof for a signature c by the mint's key on a blinded message b. Equal arguments give the same proof.
func (s Scalar) Prove(b, c Point) (DLEQ, error) {
	key := s.PubKey()
	for counter := range 256 {
		mac := hmac.New(sha256.New, s[:])
		mac.Write([]byte("Cashu_DLEQ_R_v1"))
		for _, p := range []Point{key, b, c} {
			mac.Write(uncompressed(p.jacobian()))
		}
		mac.Write([]byte{byte(counter)})
		var nonce, e Scalar
		if nonce.set(mac.Sum(nil)) != nil {
			continue
		}
		challenge, err := challenge(base(nonce.mod()), times(nonce.mod(), b.jacobian()), key, c)
		if err != nil || e.set(challenge[:]) != nil {
			continue
		}
		sum := new(btcec.ModNScalar).Mul2(e.mod(), s.mod()).Add(nonce.mod())
		proof := DLEQ{E: e}
		if proof.S.set(bytesOf(sum)) == nil {
			return proof, nil
		}
	}
	return DLEQ{}, errors.New("no proof was found for these points")
}

var errNotSigned = errors.New("the mint did not sign it")

// CheckBlind checks the proof for the signature c on the blinded message b, by the mint's public key.
func (d DLEQ) CheckBlind(key, b, c Point) error {
	minusE := negated(d.E.mod())
	r1 := add(base(d.S.mod()), times(minusE, key.jacobian()))              // s·G − e·A
	r2 := add(times(d.S.mod(), b.jacobian()), times(minusE, c.jacobian())) // s·B' − e·C'
	want, err := challenge(r1, r2, key, c)
	if err != nil || want != d.E {
		return errNotSigned
	}
	return nil
}

// Check checks the proof, with its blinding factor, for the signature c on a secret, by the mint's public key.
func (d DLEQ) Check(key Point, secret string, c Point) error {
	if d.R == nil {
		return errors.New("it has no blinding factor")
	}
	b, err := Blind(secret, *d.R)
	if err != nil {
		return err
	}
	blinded, err := compressed(add(c.jacobian(), times(d.R.mod(), key.jacobian()))) // C + r·A
	if err != nil {
		return err
	}
	return d.CheckBlind(key, b, blinded)
}

// challenge is hash_e of NUT-12.
func challenge(r1, r2 btcec.JacobianPoint, key, c Point) (e Scalar, err error) {
	var text strings.Builder
	for _, j := range []btcec.JacobianPoint{r1, r2, key.jacobian(), c.jacobian()} {
		if atInfinity(&j) { // never in an honest proof
			return Scalar{}, errInfinity
		}
		text.WriteString(hex.EncodeToString(uncompressed(j)))
	}
	return sha256.Sum256([]byte(text.String())), nil
}

func uncompressed(j btcec.JacobianPoint) []byte {
	j.ToAffine()
	return btcec.NewPublicKey(&j.X, &j.Y).SerializeUncompressed()
}

func bytesOf(n *btcec.ModNScalar) []byte {
	b := n.Bytes()
	return b[:]
}

func negated(n *btcec.ModNScalar) *btcec.ModNScalar { return new(btcec.ModNScalar).NegateVal(n) }

func add(p, q btcec.JacobianPoint) (sum btcec.JacobianPoint) {
	btcec.AddNonConst(&p, &q, &sum)
	return sum
}

func times(n *btcec.ModNScalar, p btcec.JacobianPoint) (product btcec.JacobianPoint) {
	btcec.ScalarMultNonConst(n, &p, &product)
	return product
}

func base(n *btcec.ModNScalar) (product btcec.JacobianPoint) {
	btcec.ScalarBaseMultNonConst(n, &product)
	return product
}
