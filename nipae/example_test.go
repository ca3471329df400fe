package nipae_test

import (
	"fmt"

	"guild/nipae"
)

func ExampleTools() {
	base := []string{"read", "write", "bash"}
	careful := nipae.Nudge{Allow: []string{"web"}, Deny: []string{"bash"}}
	fmt.Println(nipae.Tools(base, []nipae.Nudge{careful}))
	fmt.Println(nipae.Tools(base, []nipae.Nudge{careful, {Only: []string{"read"}}}))
	// Output:
	// [read web write]
	// [read]
}
