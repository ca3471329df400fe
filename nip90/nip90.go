// Package nip90 reads and writes the events of NIP-90 data vending machines: job requests (kinds 5000-5999),
// job results (6000-6999) and job feedback (7000). It is the one place that knows how they look on the wire.
//
// Many dialects are read; one is written. Reading merges what stands outside and inside an encrypted event.
// Writing puts the tags of a request in the order p, d, i, param (by key), output, bid, relays, rest, and
// strips the control characters on which other people's event ids break.
//
// # Bundle jobs
//
// A bundle job is our profile of NIP-90: the input is a Nutshell bundle, and so is the result. A request has
//
//	["i", <base64 of the bundle>, "text", "", "bundle"]  a small bundle, or
//	["i", <URL>, "url", "", "bundle"]                    where a larger one is
//	["param", "job_type", <task or schema id>]
//	["param", "job_hash", <hex>]                         see Request.JobHash
//	["param", "bundle_sha256", <hex>]                    of the plaintext bundle
//	["param", "bundle_size", <bytes>]                    of the plaintext bundle
//	["param", "bundle_key", <hex>]                       opens what is at the URL; only in an encrypted request
//	["param", "vault", "age", <base64>]                  credentials, sealed for the provider's age recipient, or
//	["param", "vault", "nip44", <base64>]                their document itself; both only in an encrypted request
//	["param", "vault_sha256", <hex>]                     of the bytes in the vault parameter
//	["param", "deadline", <Unix seconds>]
//	["param", "time-limit", <seconds>]                   for the judged run
//	["param", "accuracy", <share>]                       of the tests that must pass, as "1.00"
//	["param", "idempotency_key", <hex>]                  see IdempotencyKey
//	["param", "solicitation", "offer"]                   nothing but an offer is asked; see Solicits
//
// and the content of its result is one JSON object:
//
//	{"v":1,"delivery_sha256":<hex>,"size":<bytes>,"bundle":<base64>}
//	{"v":1,"delivery_sha256":<hex>,"size":<bytes>,"url":<URL>,"key":<hex>}
//
// with a key only in an encrypted result. Parcel is both sides of it.
//
// Beside the bundle a request may have any other inputs of NIP-90, the marker being the name that the customer gives
// to one of them:
//
//	["i", <URL>, "url", "", <marker>]                    at a Blossom server if the path ends in 64 hex digits,
//	                                                     which then are the SHA-256 of what is there
//	["i", <event id>, "event", <relay>, <marker>]        the content of that event
//	["i", <request id>, "job", <relay>, <marker>]        the result of an earlier request, which may be read by all
//	["i", <text>, "text", "", <marker>]                  the text; with the marker "job" or one that begins with
//	                                                     "job:" the content of a result that not everybody may read
//
// A benchmark is a request of kind 5000 with the parameters benchmark-type (standard, stress or correctness),
// time-limit, memory-limit (MB), iterations and language, and with one input more:
//
//	["i", {"benchmark_id":<suite>,"modules":[<module>,…]}, "text", "", "benchmark_spec"]
//
// A vault may have one value more, "allow-expired". It is at most MaxVault bytes and no part of the job hash, so
// that each provider can get its own.
//
// The package decides nothing: whether a result is wanted, a price is right or an answer came too late is the
// business of whoever reads it. It does not check signatures (guild.Verify does), and it has no clock and no
// key: who encrypts and decrypts is passed in.
package nip90

import (
	"context"
	"errors"
	"strings"

	"fiatjaf.com/nostr"
)

// KindFeedback is the kind of every feedback event.
const KindFeedback nostr.Kind = 7000

// MaxInline is the largest bundle, in bytes, that is read from an event.
const MaxInline = 32 << 10

// Inline is the largest bundle, in bytes, that is sent inside an event. NIP-44 pads what is longer to a size whose
// base64 is over MaxEvent.
const Inline = 28 << 10

// MaxEvent is the size of an event as JSON, in bytes, that common relays take.
const MaxEvent = 64 << 10

// Limits on what is read.
const (
	MaxText   = 1 << 20 // bytes of content and tags together, and of what an encrypted content opens to
	MaxTags   = 1000    // tags of an event, outside and inside
	MaxRelays = 20      // relays that are kept of a request
	MaxURL    = 2048    // bytes of a URL
)

// Names of parameters and the markers of bundle jobs.
const (
	MarkerBundle    = "bundle"
	MarkerBenchmark = "benchmark_spec"
	MarkerJob       = "job"

	ParamJobType      = "job_type"
	ParamJobHash      = "job_hash"
	ParamBundleSHA256 = "bundle_sha256"
	ParamBundleSize   = "bundle_size"
	ParamBundleKey    = "bundle_key"
	ParamVault        = "vault"
	ParamVaultSHA256  = "vault_sha256"
	ParamDeadline     = "deadline"
	ParamTimeLimit    = "time-limit"

	ParamAccuracy       = "accuracy"
	ParamIdempotencyKey = "idempotency_key"
	ParamSolicitation   = "solicitation"

	ParamBenchmarkType = "benchmark-type"
	ParamMemoryLimit   = "memory-limit"
	ParamIterations    = "iterations"
	ParamLanguage      = "language"
)

// Encryptions by name.
const (
	NIP44 = "nip44"
	NIP04 = "nip04" // read, never sent
)

// Reasons why an event is not what it should be.
var (
	ErrKind      = errors.New("not of the expected kind")
	ErrTooBig    = errors.New("over a limit")
	ErrMalformed = errors.New("malformed")
	ErrEncrypted = errors.New("encrypted, and there is no key to open it")
	ErrSecret    = errors.New("a key or a credential does not travel in clear")
	ErrNoBundle  = errors.New("no bundle")
)

// Opener decrypts what sender encrypted for us. Whether it is NIP-44 or NIP-04 is told by the ciphertext:
// NIP-04 has "?iv=" in it.
type Opener func(sender nostr.PubKey, ciphertext string) (plaintext string, err error)

// Sealer encrypts for the one who is to read it.
type Sealer = func(plaintext string) (ciphertext string, err error)

// ResultKind is the kind of the results of a request's kind.
func ResultKind(request int) int { return request + 1000 }

// IsRequest reports whether a kind is one of job requests.
func IsRequest(kind int) bool { return 5000 <= kind && kind < 6000 }

// IsResult reports whether a kind is one of job results.
func IsResult(kind int) bool { return 6000 <= kind && kind < 7000 }

// OpenWith opens what is encrypted to the owner of a key: NIP-44, or NIP-04 where the ciphertext carries its mark.
func OpenWith(ctx context.Context, key nostr.Cipher) Opener {
	return func(sender nostr.PubKey, ciphertext string) (string, error) {
		if strings.Contains(ciphertext, "?iv=") {
			return key.Nip04Decrypt(ctx, ciphertext, sender)
		}
		return key.Decrypt(ctx, ciphertext, sender)
	}
}
