package parts_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"guild/nutshell"
	"guild/nutshell/parts"
)

func ExampleSplit() {
	task := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1",
		"task": {"title": "Clean the house"}, "acceptance": {"checklist": ["kitchen", "bath", "windows"]}}`)}}
	m, err := nutshell.ParseManifest(task["nutshell.json"].Data)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 1
	newID := func() (string, error) { n++; return fmt.Sprint("nut-", n), nil }
	all, err := parts.Split(context.Background(), m, task, 2, parts.SplitOptions{}, newID)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range all {
		fmt.Println(p.ID, p.Title, p.Checklist)
	}
	// Output:
	// nut-2 Clean the house (part 1 of 2) [kitchen windows]
	// nut-3 Clean the house (part 2 of 2) [bath]
}
