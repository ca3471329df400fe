// Package nip90 reads and writes the events of NIP-90 data vending machines: job requests (kinds 5000-5999), job
// results (6000-6999) and job feedback (7000). Their wire format is defined only here.
//
// The package reads many dialects and writes one. Reading merges the outer and the encrypted tags of an event. Writing
// puts the tags of a request in the order p, d, i, param (by key), output, bid, relays, rest. It removes control
// characters, because some programs compute other event ids for them.
//
// # Bundle jobs
//
// A bundle job is our profile of NIP-90: the input and the result are Nutshell bundles. A request has
//
//	["i", <base64 of the bundle>, "text", "", "bundle"]  a small bundle, or
//	["i", <URL>, "url", "", "bundle"]                    the URL of a larger one
//	["param", "job_type", <task or schema id>]
//	["param", "job_hash", <hex>]                         see Request.JobHash
//	["param", "bundle_sha256", <hex>]                    of the plaintext bundle
//	["param", "bundle_size", <bytes>]                    of the plaintext bundle
//	["param", "bundle_key", <hex>]                       decrypts the file at the URL; only in an encrypted request
//	["param", "vault", "age", <base64>]                  credentials, sealed for the provider's age recipient, or
//	["param", "vault", "nip44", <base64>]                the credentials unsealed; both only in an encrypted request
//	["param", "vault_sha256", <hex>]                     of the bytes in the vault parameter
//	["param", "deadline", <Unix seconds>]
//	["param", "time-limit", <seconds>]                   for the judged run; of a benchmark, and of a request without a
//	                                                     bundle, for the job
//	["param", "accuracy", <share>]                       of the tests that must pass, as "1.00"
//	["param", "idempotency_key", <hex>]                  see IdempotencyKey
//	["param", "solicitation", "offer"]                   asks only for an offer; see Solicits
//
// and the content of its result is one JSON object:
//
//	{"v":1,"delivery_sha256":<hex>,"size":<bytes>,"bundle":<base64>}
//	{"v":1,"delivery_sha256":<hex>,"size":<bytes>,"url":<URL>,"key":<hex>}
//
// with a key only in an encrypted result. Parcel represents both forms.
//
// A result, encrypted or not, names the behaviour of the agent that did the work (package nipae/behaviour), if there is one:
//
//	["behaviour", "sha256:<hex>"]
//
// and the documents of the worker's session, if it was recorded: the trajectory by its canonical hash (package replay), and
// the receipt that the provider keeps (package replay/session) by the hash of its bytes:
//
//	["trajectory_hash", "sha256:<hex>"]
//	["receipt_hash", "sha256:<hex>"]
//
// A request can also have other inputs of NIP-90. The marker is the customer's name for an input:
//
//	["i", <URL>, "url", "", <marker>]                    from a Blossom server if the path ends in 64 hex digits,
//	                                                     which are then the SHA-256 of the file
//	["i", <event id>, "event", <relay>, <marker>]        the content of that event
//	["i", <request id>, "job", <relay>, <marker>]        the result of an earlier request, if it is public
//	["i", <text>, "text", "", <marker>]                  the text; with the marker "job", or one that begins with
//	                                                     "job:", the content of a result that is not public
//
// A request in clear names the metadata of the files that it uploaded (NIP-94, kind 1063), which must be signed by the
// customer. Its url tag is the URL in the i tag; a provider checks the file by its x and size tags:
//
//	["e", <event id>, <relay>, "file"]
//
// A benchmark is a request of kind 5000 with the parameters benchmark-type (standard, stress or correctness),
// time-limit, memory-limit (MB), iterations and language, and with one more input:
//
//	["i", {"benchmark_id":<suite>,"modules":[<module>,…]}, "text", "", "benchmark_spec"]
//
// A provider that reads no bundles gets the same work without one: the first input is the text of what is to be done, and
// each further one is a file with its path as the marker. bundle_sha256 and job_hash still bind the request to the bundle
// that the customer keeps. A benchmark has no benchmark_spec then.
//
// A vault can have one more value, "allow-expired". It has at most MaxVault bytes. It is not part of the job hash, so
// that each provider can get its own.
//
// The package makes no decisions: its callers decide whether a result is wanted, a price is right or an answer is
// late. It does not check signatures (guild.Verify does). It has no clock and no key: its callers pass functions that
// encrypt and decrypt.
package nip90

import (
	"context"
	"errors"
	"strings"

	"fiatjaf.com/nostr"
)

// KindFeedback is the kind of every feedback event.
const KindFeedback nostr.Kind = 7000

// MaxInline limits the size of a bundle that is read from an event, in bytes.
const MaxInline = 32 << 10

// Inline limits the size of a bundle that is sent inside an event, in bytes. NIP-44 pads a longer one to a size whose
// base64 exceeds MaxEvent.
const Inline = 28 << 10

// MaxEvent is the size of an event as JSON, in bytes, that common relays accept.
const MaxEvent = 64 << 10

// Limits of the input.
const (
	MaxText   = 1 << 20 // bytes of content and tags together, and of a decrypted content
	MaxTags   = 1000    // tags of an event, outer or encrypted
	MaxRelays = 20      // relays kept of a request
	MaxURL    = 2048    // bytes of a URL
)

// Parameter names, and markers of bundle jobs.
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
	ParamSettle         = "settle" // how the customer pays: "prepaid", before the work, whatever becomes of it; "onchain", so by a Bitcoin transaction; see Payout for others
	ParamNudge          = "nudge"  // ids of nudges (NIP-AE) that the agent is asked to work by

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

// Reasons why an event is refused.
var (
	ErrKind      = errors.New("not of the expected kind")
	ErrTooBig    = errors.New("over a limit")
	ErrMalformed = errors.New("malformed")
	ErrEncrypted = errors.New("encrypted, and there is no key to open it")
	ErrSecret    = errors.New("a key or a credential does not travel in clear")
	ErrNoBundle  = errors.New("no bundle")
)

// Opener decrypts a text that sender encrypted for us. The ciphertext tells whether it is NIP-44 or NIP-04: NIP-04
// contains "?iv=".
type Opener func(sender nostr.PubKey, ciphertext string) (plaintext string, err error)

// Sealer encrypts a text for its recipient.
type Sealer = func(plaintext string) (ciphertext string, err error)

// ResultKind returns the kind of results for a request's kind.
func ResultKind(request int) int { return request + 1000 }

// IsRequest reports whether a kind is a job request.
func IsRequest(kind int) bool { return 5000 <= kind && kind < 6000 }

// IsResult reports whether a kind is a job result.
func IsResult(kind int) bool { return 6000 <= kind && kind < 7000 }

// OpenWith returns an Opener that decrypts with a key: NIP-04 if the ciphertext contains "?iv=", otherwise NIP-44.
func OpenWith(ctx context.Context, key nostr.Cipher) Opener {
	return func(sender nostr.PubKey, ciphertext string) (string, error) {
		if strings.Contains(ciphertext, "?iv=") {
			return key.Nip04Decrypt(ctx, ciphertext, sender)
		}
		return key.Decrypt(ctx, ciphertext, sender)
	}
}
