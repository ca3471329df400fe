module guild

go 1.26.0

require (
	c2sp.org/CCTV/age v0.0.0-20260829155415-4448f2097b2d // the age project's test vectors (tests)
	charm.land/bubbletea/v2 v2.0.9 // colours, live screens, questions on a terminal
	charm.land/huh/v2 v2.0.3 // colours, live screens, questions on a terminal
	charm.land/lipgloss/v2 v2.0.6 // colours, live screens, questions on a terminal
	fiatjaf.com/nostr v0.0.0-20260731140316-a8080728893f // the events, keys, NIP-19, NIP-44, NIP-49, NIP-59 and bunker of other clients; not its relay client
	filippo.io/age v1.3.2 // vaults sealed to people
	github.com/aymanbagabas/go-udiff v0.4.1 // nutshell diff
	github.com/btcsuite/btcd/btcec/v2 v2.5.0 // signatures of events (BIP-340), invoices and ecash
	github.com/btcsuite/btcd/btcutil v1.1.5 // base58 of Bitcoin's private keys, which redaction hides
	github.com/coder/websocket v1.8.15 // WebSocket of the relay client and the local relay
	github.com/fxamacker/cbor/v2 v2.9.1 // ecash tokens and payment requests
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // strict JSON and tokens; snapshots of folds, twice as fast at a restart
	github.com/klauspost/compress v1.20.3 // zstd and parallel gzip of bundles, backups, archives
	github.com/knadh/koanf/parsers/toml/v2 v2.1.0 // configuration from file and environment
	github.com/knadh/koanf/providers/env/v2 v2.0.2 // configuration from file and environment
	github.com/knadh/koanf/providers/file v1.2.1 // configuration from file and environment
	github.com/knadh/koanf/v2 v2.4.1 // configuration from file and environment
	github.com/minio/highwayhash v1.0.4 // checksums of the journal's blocks, which repair reads itself
	github.com/modelcontextprotocol/go-sdk v1.8.0 // tools of MCP servers
	github.com/nats-io/nats-server/v2 v2.15.2 // the journal (ADR 1)
	github.com/nats-io/nats.go v1.55.0 // the journal (ADR 1)
	github.com/openbao/openbao/api/v2 v2.7.1 // vaults sealed by Vault or OpenBao, with their login methods
	github.com/pelletier/go-toml/v2 v2.2.2 // where Codex's settings name its notifier; agent files
	github.com/rogpeppe/go-internal v1.16.0 // testscript and txtar (tests)
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // a real validator for our JSON Schemas (tests)
	github.com/spf13/cobra v1.10.2 // command lines, help, completion, manual pages
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // settings of Claude Code, changed with the rest kept byte for byte
	github.com/tiktoken-go/tokenizer v0.10.0 // tokens of nutshell context
	github.com/tyler-smith/go-bip39 v1.1.0 // the wallet's seed as words
	go.etcd.io/bbolt v1.4.2 // events of the local relay, in a B+tree that survives a power cut
	go.yaml.in/yaml/v3 v3.0.5 // front matter of Claude Code's agent files
	golang.org/x/crypto v0.58.0 // ssh keys of vaults, ChaCha20
	golang.org/x/mod v0.41.0 // Merkle tree of the journal: that of the Go checksum database (sumdb/tlog)
	golang.org/x/sync v0.24.0 // errgroup, semaphores
	golang.org/x/sys v0.49.0 // namespaces, seccomp, Landlock, control groups
	golang.org/x/term v0.47.0 // whether there is a terminal, its width, passphrases
	golang.org/x/text v0.43.0 // names of tasks without case and in one Unicode form (nip89)
	golang.org/x/time v0.16.0 // limits of customers and of the local relay
	pgregory.net/rapid v1.3.0 // property tests
)

require (
	charm.land/bubbles/v2 v2.0.0 // indirect
	fiatjaf.com/lib v0.3.7 // indirect
	filippo.io/edwards25519 v1.2.0 // indirect
	filippo.io/hpke v0.4.0 // indirect
	github.com/ImVexed/fasturl v0.0.0-20230304231329-4e41488060f3 // indirect
	github.com/andybalholm/brotli v1.1.1 // indirect
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/atotto/clipboard v0.1.4 // indirect
	github.com/bep/debounce v1.2.1 // indirect
	github.com/btcsuite/btcd/chainhash/v2 v2.0.0 // indirect
	github.com/catppuccin/go v0.2.0 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/charmbracelet/colorprofile v0.4.3 // indirect
	github.com/charmbracelet/ultraviolet v0.0.0-20260811164956-006e29f97886 // indirect
	github.com/charmbracelet/x/ansi v0.11.8 // indirect
	github.com/charmbracelet/x/exp/ordered v0.1.0 // indirect
	github.com/charmbracelet/x/exp/strings v0.0.0-20240722160745-212f7b056ed0 // indirect
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/charmbracelet/x/termios v0.1.1 // indirect
	github.com/charmbracelet/x/windows v0.2.2 // indirect
	github.com/clipperhouse/displaywidth v0.11.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.6 // indirect
	github.com/decred/dcrd/crypto/blake256 v1.1.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.0 // indirect
	github.com/dlclark/regexp2 v1.11.5 // indirect
	github.com/dlclark/regexp2/v2 v2.5.1 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/fasthttp/websocket v1.5.12 // indirect
	github.com/fsnotify/fsnotify v1.9.0 // indirect
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/go-viper/mapstructure/v2 v2.5.0 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/hashicorp/go-secure-stdlib/parseutil v0.2.0 // indirect
	github.com/hashicorp/go-secure-stdlib/strutil v0.1.2 // indirect
	github.com/hashicorp/go-sockaddr v1.0.7 // indirect
	github.com/hashicorp/hcl v1.0.1-vault-7 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/josharian/intern v1.0.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/knadh/koanf/maps v0.1.2 // indirect
	github.com/lucasb-eyer/go-colorful v1.4.1 // indirect
	github.com/mailru/easyjson v0.9.0 // indirect
	github.com/mattn/go-runewidth v0.0.31 // indirect
	github.com/mitchellh/copystructure v1.2.0 // indirect
	github.com/mitchellh/hashstructure/v2 v2.0.2 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/mitchellh/reflectwalk v1.0.2 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/muesli/cancelreader v0.2.2 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/rs/cors v1.11.1 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/ryanuber/go-glob v1.0.0 // indirect
	github.com/savsgio/gotils v0.0.0-20240704082632-aef3928b8a38 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/templexxx/cpu v0.0.1 // indirect
	github.com/templexxx/xhex v0.0.0-20200614015412-aed53437177b // indirect
	github.com/tidwall/gjson v1.18.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasthttp v1.59.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/exp v0.0.0-20250305212735-054e65f0b394 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)

ignore (
	./examples/spans
	./examples/workers
)
