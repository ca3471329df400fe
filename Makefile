# Go needs a home for its caches; a machine that gives none gets one here.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/.cache/home
endif

GOFMT = $(shell go env GOROOT)/bin/gofmt
TOOL = go tool -modfile=tools/go.mod
# A checkout that git refuses to read ("dubious ownership") is built without its revision.
VCS = $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)

# The race detector watches everything but the arithmetic of signatures, compression and passphrases, which shares nothing
# and would take it most of its time.
UNWATCHED = github.com/decred/dcrd/dcrec/... github.com/klauspost/compress/flate github.com/klauspost/compress/huff0 \
	golang.org/x/crypto/pbkdf2 golang.org/x/crypto/scrypt
RACE = -race $(UNWATCHED:%=-gcflags=%=-race=false)

# The detector watches the journal, what speaks with the world, and the node, which runs everything else. The others would take two
# to four times as long under it, and decide one after the other, start no goroutine or mostly run other processes. make check
# watches them all.
SHARED = hand journal node
WATCHED = $$(go list $(SHARED:%=./internal/%/...))
LONG = ./cmd/guild ./internal/judging/exam ./internal/step/judge ./internal/judging/suite
REST = $$(go list ./... | grep -vE "/(cmd/guild|internal/(judging/exam|step/judge|judging/suite|$(subst $() ,|,$(SHARED)))$$|internal/($(subst $() ,|,$(SHARED)))/.*)$$")
BOTH = $(MAKE) --jobs=2 --keep-going --output-sync=target watched long

# make module PATH=… would hide the programs that its commands need.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell echo $$PATH):/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin
endif

.PHONY: demo test watched long lint check fuzz bench fix build release soak stand module

demo: build ## the whole loop on this machine, with four providers
	@scripts/needs
	@test -t 1 || export NO_COLOR=1; bin/guild demo

build: ## bin/guild
	go build $(VCS) -ldflags "-s -w" -o bin/guild ./cmd/guild

release: ## what is published, in bin/release: archives for each system, and SHA256SUMS; ten minutes the first time
	scripts/release

test: ## every test; WITH=race under the race detector, FLAGS=-json and the like are passed on
	@scripts/needs test
	$(if $(filter race,$(WITH)),$(BOTH),go test -timeout 30m $(FLAGS) ./...)
	go test -C bench -timeout 30m $(FLAGS) ./...

watched: # at the same time as long, as the tests of each wait for something a third of the time
	CGO_ENABLED=1 go test -timeout 30m $(RACE) $(FLAGS) $(WATCHED); watched=$$?; go test -timeout 30m $(FLAGS) $(REST) && exit $$watched

long:
	go test -timeout 60m $(FLAGS) $(LONG)

lint:
	go vet ./...
	go vet -C bench ./...
	@out=$$($(GOFMT) -l *.go */); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(TOOL) staticcheck ./...
	staticcheck=$$($(TOOL) -n staticcheck) && cd bench && $$staticcheck ./...

check: lint ## what must be clean before a commit
	@scripts/needs race
	CGO_ENABLED=1 go test -timeout 30m $(RACE) -short ./...

fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz

# What takes longer than the tests may: every wrong solution of HumanEval and the vetting of its tasks, every attack, lie and
# idiom, a death after every entry and the loss of each, relays with more jobs, 2,000 sandboxes, twenty markets; and the
# programs for every system.
soak:
	@scripts/needs test
	{ date -u +%F; GUILD_SOAK=1 go test -timeout 2h -count 1 -v -run '^(TestHumanEval|TestKillAtEveryFact|TestLostEntryMakesNothingDue|TestFaultyRelays|TestTextProviderDeliversPrograms|TestAgentsHaveTheirBehavioursToolsOnly)$$' ./internal/node; \
	GUILD_SOAK=1 go test -timeout 1h -count 1 -v -run '^TestKillAgainAndAgain$$' ./internal/step/activity; \
	GUILD_SOAK=1 go test -timeout 1h -count 1 -v -run '^(TestVet|TestNoLiePasses|TestHonest|TestAttacks|TestScriptAttacks|TestForge|TestIdioms|TestBlame)' ./internal/judging/exam ./internal/judging/suite; \
	GUILD_SOAK=1 go test -timeout 1h -count 1 -v -run '^TestSybilFlood' ./internal/step/meet; \
	GUILD_SOAK=1 go test -timeout 1h -count 1 -v -run '^(TestHostileDeliveries|TestHumanEval)' ./internal/step/judge; \
	go run -C bench ./judge -soak 2000; go run -C bench ./marketsim -seeds 20; $(MAKE) release; } 2>&1 | tee .cache/soak.log

stand: ## the tests that need gVisor, podman, control groups of version 2, a real HashiCorp Vault or lnd; PART=podman runs one part
	@scripts/needs stand
	scripts/stand $(PART)

# Each program and each package ends within BENCHLIMIT. More of a package: make bench BENCHTIME=1s COUNT=10.
BENCHTIME = 100ms
COUNT = 6
BENCHLIMIT = 10m
BENCH = timeout --foreground -s INT -k 10 $(BENCHLIMIT) .cache/bench

bench: ## compare two runs with: go tool -modfile=tools/go.mod benchstat old.txt new.txt
	go build -C bench $(VCS) -o ../.cache/bench/ ./...
	$(BENCH)/loop
	$(BENCH)/judge
	$(BENCH)/discovery
	$(BENCH)/canon
	$(BENCH)/agents
	$(BENCH)/hooks
	$(BENCH)/money
	$(BENCH)/marketsim
	$(BENCH)/nutshell
	go test -short -timeout $(BENCHLIMIT) -run '^$$' -bench . -benchtime $(BENCHTIME) -count $(COUNT) \
		$$(grep -rl --exclude-dir .cache --exclude-dir bench --include '*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)

fix: ## modernize and format
	go fix ./...
	$(GOFMT) -w *.go */

module: ## make module PATH=host/owner/guild: rename the module throughout, to where it is published
	scripts/module $(MODULE)
	go generate ./verify/page ./internal/judging/sandbox/namespaces
