package clawnet_test

import (
	"fmt"

	"guild/nutshell"
	"guild/nutshell/clawnet"
)

func Example() {
	m, err := nutshell.ParseManifest([]byte(`{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-1",
  "task": {"title": "Count the words"},
  "tags": {"skills_required": ["golang"]},
  "extensions": {"clawnet": {"reward": {"amount": 500.00}, "zone": "eu"}}
}`))
	if err != nil {
		panic(err)
	}
	e, _, err := clawnet.FromManifest(m)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Tags().SkillsRequired, e.Reward)

	e.PeerID = "12D3KooWAbCdEf"
	if err := e.Write(m); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", m.Extensions()[clawnet.Name])
	// Output:
	// [golang] 500.00 shells
	// {"reward": {"amount": 500.00}, "zone": "eu", "peer_id": "12D3KooWAbCdEf"}
}
