package control_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// The age recipients of this node and of a provider.
const (
	ownRecipient   = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	aliceRecipient = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg"
)

// sealed looks like an age file; the node cannot check more.
var sealed = []byte("age-encryption.org/v1\n-> X25519")

func release(recipients ...string) control.Release {
	r := control.Release{Names: []string{"staging-db"}, Expires: 1_900_000_000_000}
	for _, to := range recipients {
		r.Vaults = append(r.Vaults, control.SealedVault{For: to, Sealed: append(bytes.Clone(sealed), to...)})
	}
	return r
}

func TestAJobTakesReleasedCredentialsAlong(t *testing.T) {
	d := openDesk(t)
	own, err := control.NodeRecipient.Call(t.Context(), d.Client)
	if err != nil || own.Recipient != ownRecipient {
		t.Fatalf("%s, %v", own, err)
	}
	named, err := control.KeepRelease.Call(t.Context(), d.Client, release(aliceRecipient, own.Recipient))
	if err != nil {
		t.Fatal(err)
	}
	job, err := d.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{Task: "python", Release: named.Hash})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(job.Released, []string{"staging-db"}) {
		t.Errorf("released %v", job.Released)
	}
	id, _ := guild.ParseJobID(job.ID)
	opened, _ := d.jobs.Job(id)
	r := opened.Release
	if r == nil || len(r.Vaults) != 2 || r.Vaults[0].For != aliceRecipient || r.Vaults[1].For != "" || r.Expires != 1_900_000_000_000 || r.Anyway {
		t.Fatalf("%+v", r)
	}
	kept, err := d.blobs.ReadAll(r.Vaults[0].Vault, nip90.MaxVault)
	if err != nil || !bytes.Equal(kept, append(bytes.Clone(sealed), aliceRecipient...)) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if raw, err := json.Marshal(fact.JobOpened{Release: r}); err != nil || bytes.Contains(raw, sealed) {
		t.Errorf("the fact is %s, %v", raw, err)
	}
}

func TestOnlyCiphertextIsReleased(t *testing.T) {
	d := openDesk(t)
	change := func(by func(*control.Release)) control.Release {
		r := release(aliceRecipient)
		by(&r)
		return r
	}
	for name, r := range map[string]control.Release{
		"in clear": change(func(r *control.Release) {
			r.Vaults[0].Sealed = []byte(`{"vault_version":"0.2.0","x":"hunter2-hunter2"}`)
		}),
		"no names":     change(func(r *control.Release) { r.Names = nil }),
		"no vault":     change(func(r *control.Release) { r.Vaults = nil }),
		"for a plugin": change(func(r *control.Release) { r.Vaults[0].For = "age1yubikey1qwqsdf" }),
		"for nobody":   change(func(r *control.Release) { r.Vaults[0].For = "" }),
		"too large": change(func(r *control.Release) {
			r.Vaults[0].Sealed = append(bytes.Clone(sealed), make([]byte, nip90.MaxVault)...)
		}),
		"in the past": change(func(r *control.Release) { r.Expires = -1 }),
	} {
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if p := d.wantProblem("POST", "/v1/releases", bytes.NewReader(raw), 400, "usage"); strings.Contains(p.Error, "hunter2") {
			t.Errorf("%s: %s", name, p.Error)
		}
	}
	d.wantProblem("POST", "/v1/releases", strings.NewReader(`{"names":["a"],"value":"hunter2-hunter2"}`), 400, "usage")
	d.wantProblem("POST", "/v1/releases", strings.NewReader(`{`), 400, "usage")
	for _, h := range []string{"x", guild.Sum(nil).String()} {
		d.wantProblem("POST", "/v1/jobs?task=python&release="+h, bytes.NewReader(packed(t, "")), 400, "usage")
	}
	other, err := d.blobs.PutBytes(t.Context(), []byte(`{"names":["a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	d.wantProblem("POST", "/v1/jobs?task=python&release="+other.String(), bytes.NewReader(packed(t, "")), 400, "usage")
	if d.journal.Last() != 0 {
		t.Error("a job was opened")
	}
}

func TestBundleWithVaultIsPrivate(t *testing.T) {
	d := openDesk(t)
	manifest := `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"x"},"credentials":{"vault":"./credentials/vault.enc.json","encryption":"age"}}`
	for name, tree := range map[string]fstest.MapFS{
		"with it":    {"nutshell.json": {Data: []byte(manifest)}, "credentials/vault.enc.json": {Data: sealed}},
		"without it": {"nutshell.json": {Data: []byte(manifest)}},
	} {
		var b bytes.Buffer
		if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
			t.Fatal(err)
		}
		job, err := d.Hire(t.Context(), &b, control.Hire{Task: "python"})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := guild.ParseJobID(job.ID)
		if opened, _ := d.jobs.Job(id); opened.Private != (name == "with it") {
			t.Errorf("%s: private %v", name, opened.Private)
		}
	}
}
