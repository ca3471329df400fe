package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"time"

	"golang.org/x/sync/errgroup"

	"guild/cashu"
	"guild/internal/hand/mintd"
)

// stand is a mint that is served, and the ecash for the next turn.
type stand struct {
	o      options
	dir    string
	mint   *mintd.Mint
	server *httptest.Server
	client *http.Client
	keyset cashu.Keyset
	purses [][]cashu.Proof // for each swap of a turn, its inputs

	parties [2]cashu.Scalar // a provider's and a customer's key
	secret  string          // of ecash that is locked to both
}

// amount is that of each proof.
const amount = 8

func newStand(o options) (s *stand, err error) {
	s = &stand{o: o, parties: [2]cashu.Scalar{cashu.RandomScalar(), cashu.RandomScalar()}}
	if s.dir, err = os.MkdirTemp(o.dir, "money-"); err != nil {
		return nil, err
	}
	if s.mint, err = mintd.Open(s.dir, mintd.Options{Now: time.Now, Faucet: 1 << 30}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	s.server = httptest.NewServer(s.mint.Handler())
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}}
	if err := s.fund(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stand) close() error {
	s.server.Close()
	return errors.Join(s.mint.Close(), os.RemoveAll(s.dir))
}

// fund gets the keys, and the first ecash from the faucet.
func (s *stand) fund() error {
	var keys struct{ Keysets []cashu.Keyset }
	if err := s.call("GET", "/v1/keys", nil, &keys); err != nil {
		return err
	}
	s.keyset = keys.Keysets[0]
	locked, err := s.blind(true)
	if err != nil {
		return err
	}
	s.secret = locked.secrets[0]
	for range s.o.n {
		var quote struct{ Quote string }
		asked := fmt.Sprintf(`{"amount":%d,"unit":%q}`, amount*s.o.proofs, mintd.Unit)
		if err := s.call("POST", "/v1/mint/quote/bolt11", []byte(asked), &quote); err != nil {
			return err
		}
		next, err := s.blind(false)
		if err != nil {
			return err
		}
		body, err := json.Marshal(map[string]any{"quote": quote.Quote, "outputs": next.outputs})
		if err != nil {
			return err
		}
		var answer bytes.Buffer
		if err := s.send("POST", "/v1/mint/bolt11", body, &answer); err != nil {
			return err
		}
		purse, err := s.unblind(next, answer.Bytes())
		if err != nil {
			return err
		}
		s.purses = append(s.purses, purse)
	}
	return nil
}

// blinded has the secrets of a swap's outputs.
type blinded struct {
	outputs []cashu.Output
	secrets []string
	factors []cashu.Scalar
}

// blind makes the outputs of a swap, with secrets of anybody's or, if locked, of two parties' that both must sign for.
func (s *stand) blind(locked bool) (b blinded, err error) {
	for range s.o.proofs {
		random, r := cashu.RandomScalar(), cashu.RandomScalar()
		secret := hex.EncodeToString(random[:])
		if locked {
			secret, err = cashu.Condition{
				Kind: cashu.P2PK, Nonce: secret, Keys: []cashu.Point{s.parties[0].PubKey(), s.parties[1].PubKey()}, Sigs: 2,
				Locktime: time.Now().Add(time.Hour).Unix(), Refund: []cashu.Point{s.parties[1].PubKey()}, RefundSigs: 1,
			}.Secret()
			if err != nil {
				return b, err
			}
		}
		message, err := cashu.Blind(secret, r)
		if err != nil {
			return b, err
		}
		b.outputs = append(b.outputs, cashu.Output{Amount: amount, Keyset: s.keyset.ID, B: message})
		b.secrets, b.factors = append(b.secrets, secret), append(b.factors, r)
	}
	return b, nil
}

// unblind makes ecash of an answer, and checks it.
func (s *stand) unblind(b blinded, answer []byte) (purse []cashu.Proof, err error) {
	var got struct{ Signatures []cashu.Signature }
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	if len(got.Signatures) != len(b.outputs) {
		return nil, fmt.Errorf("%d signatures: %.200s", len(got.Signatures), answer)
	}
	key := s.keyset.Keys[amount]
	for i, signature := range got.Signatures {
		c, err := cashu.Unblind(signature.C, b.factors[i], key)
		if err != nil {
			return nil, err
		}
		if err := signature.DLEQ.CheckBlind(key, b.outputs[i].B, signature.C); err != nil {
			return nil, err
		}
		purse = append(purse, cashu.Proof{Amount: amount, Keyset: s.keyset.ID, Secret: b.secrets[i], C: c})
	}
	return purse, nil
}

// swaps swaps all purses for ecash that anybody can spend.
func (s *stand) swaps(clients int) (time.Duration, error) { return s.swap(clients, false) }

// escrow locks all purses to both parties, lets both sign, and swaps them for ecash that anybody can spend.
func (s *stand) escrow(clients int) (time.Duration, error) {
	locking, err := s.swap(clients, true)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = s.share("parties", clients, func(i int) error {
		for at, proof := range s.purses[i] {
			w, err := s.sign(proof.Secret)
			if err != nil {
				return err
			}
			s.purses[i][at].Witness = w.Text()
		}
		return nil
	})
	signing := time.Since(began)
	if err != nil {
		return 0, err
	}
	claiming, err := s.swap(clients, false)
	return locking + signing + claiming, err
}

// sign returns the signatures of both parties.
func (s *stand) sign(secret string) (w cashu.Witness, err error) {
	for _, key := range s.parties {
		err = errors.Join(err, w.Sign(key, secret))
	}
	return w, err
}

// escrowFloor does what two swaps need, and makes and checks the signatures of both parties.
func (s *stand) escrowFloor(clients int) (time.Duration, error) {
	locking, err := s.floor(clients)
	if err != nil {
		return 0, err
	}
	c, _, err := cashu.ParseCondition(s.secret)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = s.share("floor", clients, func(int) error {
		for range s.o.proofs {
			w, err := s.sign(s.secret)
			if err != nil {
				return err
			}
			if err := c.Check(s.secret, w, began); err != nil {
				return err
			}
		}
		return nil
	})
	signing := time.Since(began)
	if err != nil {
		return 0, err
	}
	claiming, err := s.floor(clients)
	return locking + signing + claiming, err
}

// swap swaps all purses, and returns the time that the clients waited for the mint: what wallets do before and after is not in it.
func (s *stand) swap(clients int, locked bool) (time.Duration, error) {
	n := s.o.n
	bodies, next, answers := make([][]byte, n), make([]blinded, n), make([]bytes.Buffer, n)
	err := s.share("wallet", clients, func(i int) (err error) {
		if next[i], err = s.blind(locked); err != nil {
			return err
		}
		bodies[i], err = json.Marshal(map[string]any{"inputs": s.purses[i], "outputs": next[i].outputs})
		return err
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = s.share("mint", clients, func(i int) error { return s.send("POST", "/v1/swap", bodies[i], &answers[i]) })
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	err = s.share("wallet", clients, func(i int) (err error) {
		s.purses[i], err = s.unblind(next[i], answers[i].Bytes())
		return err
	})
	return took, err
}

// floor verifies as many inputs as a turn has, and signs as many outputs with their proofs. Clients share the work.
func (s *stand) floor(clients int) (time.Duration, error) {
	key, b := cashu.RandomScalar(), cashu.HashToCurve("output")
	c, err := key.Sign(cashu.HashToCurve("input"))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = s.share("floor", clients, func(int) error {
		for range s.o.proofs {
			if !key.Signed("input", c) {
				return errors.New("the floor does not verify its own signature")
			}
			signature, err := key.Sign(b)
			if err != nil {
				return err
			}
			if _, err := key.Prove(b, signature); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(began), err
}

// share calls do for each swap of a turn, from as many goroutines as there are clients.
func (s *stand) share(part string, clients int, do func(i int) error) error {
	var group errgroup.Group
	for client := range clients {
		group.Go(func() (err error) {
			pprof.Do(context.Background(), pprof.Labels("part", part), func(context.Context) {
				for i := client; i < s.o.n && err == nil; i += clients {
					err = do(i)
				}
			})
			return err
		})
	}
	return group.Wait()
}

func (s *stand) call(method, path string, body []byte, into any) error {
	var answer bytes.Buffer
	if err := s.send(method, path, body, &answer); err != nil {
		return err
	}
	return json.Unmarshal(answer.Bytes(), into)
}

func (s *stand) send(method, path string, body []byte, answer *bytes.Buffer) error {
	r, err := http.NewRequest(method, s.server.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(answer, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", path, resp.Status, answer.Bytes())
	}
	return nil
}
