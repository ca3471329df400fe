package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/hand/mint"
	"guild/internal/hand/mintd"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/step/pay"
	"guild/internal/wallet"
	"guild/nip90"
)

// seedFile has the words that the wallet's secrets are derived from.
const seedFile = "wallet.words"

// faucet is the most that the mint of play money gives away at once, in test.
const faucet = 1_000_000

// grant is the play money of a new wallet, in test.
const grant = 10_000

// walletPart makes the wallet, and runs the mint of play money if the owner wants one.
func (n *Node) walletPart() part {
	f := wallet.NewFold()
	return part{
		name: "wallet", folds: []fold.Fold{f},
		open: func(ctx context.Context) (active, error) {
			if err := f.Check(); err != nil { // after a repair that lost entries, say
				n.c.Log.Error("the ledger does not add up: guild wallet reconcile", "err", err)
			}
			seed, err := readSeed(filepath.Join(n.c.Dir, seedFile))
			if err != nil {
				return active{}, err
			}
			client := &http.Client{} // it reaches only mints that the owner added
			n.wallet = wallet.New(wallet.Config{
				Journal: n.journal, Seed: seed,
				Mint: func(url string) (*mint.Mint, error) { return mint.New(url, client) },
			}, f)
			a := active{due: []due.Source{n.wallet.Due}}
			if n.c.MintAddr != "" {
				a.run, err = n.openMint()
			}
			return a, err
		},
		show: func(s *control.Parts) { s.Wallet = n.wallet },
	}
}

// readSeed reads the wallet's words, and writes new ones if there is no file. An invalid file is never replaced: there may
// be money under it.
func readSeed(path string) (wallet.Seed, error) {
	words, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var phrase string
		if phrase, err = wallet.NewMnemonic(); err == nil {
			words = []byte(phrase + "\n")
			err = durable.WriteBytes(path, words) // mode 0600
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the wallet's words: %w", err)
	}
	seed, err := wallet.ParseMnemonic(string(words))
	if err != nil {
		return nil, fmt.Errorf("the wallet's words in %s: %w", path, err)
	}
	return seed, nil
}

// openMint opens the mint of play money, and returns the function that serves it. The wallet gets some of it.
func (n *Node) openMint() (run func(context.Context) error, err error) {
	l, err := net.Listen("tcp", n.c.MintAddr)
	if err != nil {
		return nil, fmt.Errorf("the mint of play money: %w", err)
	}
	m, err := mintd.Open(filepath.Join(n.c.Dir, "mint"), mintd.Options{Now: n.c.Now, Faucet: faucet})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: m.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute}
	asset := wallet.Asset{Mint: "http://" + l.Addr().String(), Unit: mintd.Unit}
	return func(ctx context.Context) error {
		var granting sync.WaitGroup
		defer granting.Wait()
		granting.Go(func() { n.grant(ctx, asset) })
		stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // its error is that of Serve
		defer stop()
		err := server.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		return errors.Join(err, m.Close())
	}, nil
}

// grant gets a new wallet its play money. On a busy machine a try can take too long.
func (n *Node) grant(ctx context.Context, asset wallet.Asset) {
	const tries = 10
	for range tries {
		err := n.wallet.Grant(ctx, asset, grant)
		if err == nil || ctx.Err() != nil {
			return
		}
		n.c.Log.Warn("the wallet got no play money", "mint", asset.Mint, "err", err)
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
}

// payPart makes the step that pays providers and is paid by customers.
func (n *Node) payPart() part {
	f := pay.NewFold()
	n.folds.payments = f
	return part{
		name: "pay", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			n.lightning, n.bitcoin = n.openLightning(), n.openBitcoin()
			n.pay = pay.New(pay.Config{
				Journal: n.journal, Wallet: n.wallet, Keyer: n.keyer, PubKey: n.pubkey, Now: n.c.Now, Lightning: n.lightning.Wallet,
				Bitcoin: n.bitcoin.pays, Opinions: n.c.Judging.MostPay,
				Send: func(ctx context.Context, wrap guild.Verified, p nostr.PubKey) error {
					return n.publish(ctx, wrap, slices.Concat(n.inboxRelaysOf(ctx, p), n.urls))
				},
				Publish:     func(ctx context.Context, e guild.Verified) error { return n.publish(ctx, e, n.urls) },
				FindArbiter: n.findArbiter,
				Ours:        func(p nostr.PubKey) bool { return p == n.pubkey || n.sameOwner(n.pubkey, p) },
				Waiting: func(attempt nostr.ID) bool {
					a, _, ok := n.folds.jobs.Attempt(attempt)
					return ok && a.State.Waiting()
				},
			}, f)
			return active{due: []due.Source{n.pay.Due}}, nil
		},
		show: func(s *control.Parts) { s.Pay, s.Payments, s.Lightning, s.Bitcoin = n.pay, f, n.lightning, n.bitcoin },
	}
}

// findArbiter returns an arbiter as it announces itself at our relays.
func (n *Node) findArbiter(ctx context.Context, p nostr.PubKey) (nip90.Arbiter, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := n.find(ctx, nostr.Filter{
		Kinds: []nostr.Kind{nip90.KindArbiter}, Authors: []nostr.PubKey{p}, Tags: nostr.TagMap{"d": {nip90.ArbiterD}},
	}, n.urls)
	if err != nil {
		return nip90.Arbiter{}, fmt.Errorf("look for the judge %.8s: %w", p.Hex(), err)
	}
	if len(found) == 0 {
		return nip90.Arbiter{}, fmt.Errorf("the judge %.8s does not announce at our relays that it rules on money (guild wallet judge announce)", p.Hex())
	}
	return nip90.ParseArbiter(found[0].Event()) // sorted, the newest first
}
