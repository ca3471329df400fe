package node

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/bunker/bunkertest"
	"guild/internal/hand/key"
)

func TestRemoteSigners(t *testing.T) {
	url := startRelay(t)
	remote := func(user key.Secret) func(*Config) {
		address := bunkertest.Start(t, url, user, bunkertest.Options{})
		return func(c *Config) { c.Identity = key.Identity{Bunker: key.Bunker(address)} }
	}
	customer, provider := key.NewSecret(nostr.Generate()), key.NewSecret(nostr.Generate())
	asProvider, asCustomer := remote(provider), remote(customer)
	start(t, url, func(c *Config) {
		asProvider(c)
		c.Workers = []Worker{{Task: "echo", Do: echo}}
	})
	client, _ := start(t, url, asCustomer)

	status, err := control.NodeStatus.Call(t.Context(), client)
	if err != nil || status.PubKey != customer.PubKey().Hex() {
		t.Errorf("the node is %s, %v, want %s", status.PubKey, err, customer.PubKey().Hex())
	}
	job := hire(t, client, control.Hire{})
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		t.Fatalf("%s after %d attempts", job.Ending, len(job.Attempts))
	}
	if a := job.Attempts[0]; a.Provider != provider.PubKey().Hex() || a.Receipt == "" {
		t.Errorf("by %s, receipt %q", a.Provider, a.Receipt)
	}
}
