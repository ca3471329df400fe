package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/nip89"
)

// announce is a program for the tests. It announces a service on a relay, never answers, and prints its
// npub.
func announce() {
	flags := flag.NewFlagSet("announce", flag.ExitOnError)
	url := flags.String("relay", "", "where")
	task := flags.String("task", "", "what it offers")
	name := flags.String("name", "", "what it calls itself")
	encryption := flags.String("encryption", "", "what it reads: nip44, nip04 or nothing")
	flags.Parse(os.Args[1:])
	h := nip89.Handler{D: *task, Name: *name, Kinds: []int{5000}, Tasks: []string{*task}, Encryption: strings.Fields(*encryption)}
	if err := announceOn(*url, h); err != nil {
		fmt.Fprintln(os.Stderr, "announce:", err)
		os.Exit(1)
	}
}

func announceOn(url string, h nip89.Handler) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	secret := key.NewSecret(nostr.Generate())
	e := h.Event()
	e.CreatedAt = nostr.Now()
	v, err := guild.Sign(ctx, key.NewSigner(secret), e)
	if err != nil {
		return err
	}
	pool := relay.New(relay.Config{
		URLs: []string{url}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Receive: func(context.Context, string, guild.Verified) {},
	})
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	if _, err := pool.Publish(ctx, v); err != nil {
		return err
	}
	fmt.Println(nip19.EncodeNpub(secret.PubKey()))
	cancel()
	<-done
	return nil
}
