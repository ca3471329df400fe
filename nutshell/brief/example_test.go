package brief_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"guild/nutshell/brief"
)

func ExampleLayers() {
	bundle := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1",
			"task": {"title": "Sort the list"}, "context": {"requirements": "context/requirements.md"}}`)},
		"context/requirements.md": {Data: []byte("By date, the newest first.\n")},
		"files/list.bin":          {Data: []byte{0, 1, 2}},
	}
	b, err := brief.Layers(context.Background(), bundle, brief.Options{Window: 8_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("at most", b.Budget, "tokens")
	for _, l := range b.Layers {
		fmt.Printf("%s: %v %q\n", l.Path, l.Included, l.Reason)
	}
	// Output:
	// at most 2800 tokens
	// nutshell.json: true ""
	// context/requirements.md: true ""
	// files/list.bin: false "binary"
}
