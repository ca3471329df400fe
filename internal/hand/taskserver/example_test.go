package taskserver_test

import (
	"bytes"
	"context"
	"fmt"
	"testing/fstest"

	"guild"
	"guild/internal/hand/taskserver"
	"guild/internal/hand/taskserver/taskservertest"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/vault"
)

// A bundle becomes a task, somebody takes it, and gets exactly this bundle.
func Example() {
	server := taskservertest.Start(taskservertest.Config{Peers: map[string]string{"a-token": "alice", "b-token": "bob"}})
	defer server.Close()
	ctx := context.Background()
	client := func(token string) *taskserver.Client {
		c, err := taskserver.New(taskserver.Config{URL: server.URL, Token: vault.NewSecret([]byte(token))})
		if err != nil {
			panic(err)
		}
		return c
	}
	manifest := []byte(`{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "task": {"title": "Count"}}`)
	var bundle bytes.Buffer
	info, err := nutshell.Pack(ctx, fstest.MapFS{nutshell.ManifestFile: {Data: manifest}}, &bundle, nutshell.Options{})
	if err != nil {
		panic(err)
	}
	m, err := nutshell.ParseManifest(manifest)
	if err != nil {
		panic(err)
	}

	alice := client("a-token")
	task, err := alice.Create(ctx, m, clawnet.Extension{}, info.Hash)
	if err != nil {
		panic(err)
	}
	if err := alice.Upload(ctx, task.ID, &bundle, info.Size, info.Hash); err != nil {
		panic(err)
	}

	bob := client("b-token")
	if err := bob.Claim(ctx, task.ID); err != nil {
		panic(err)
	}
	var got bytes.Buffer
	hash, err := bob.Download(ctx, task.ID, &got, task.Hash, 1<<20)
	fmt.Println(task.ID, task.Title, hash == info.Hash, guild.Sum(got.Bytes()) == info.Hash, err)
	// Output: task-1 Count true true <nil>
}
