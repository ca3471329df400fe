package ignore_test

import (
	"fmt"

	"guild/nutshell/ignore"
)

func ExamplePatterns_Match() {
	p, err := ignore.Parse([]byte("*.log\n!important.log\nbuild/\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Match("files/debug.log", false), p.Match("files/important.log", false))
	fmt.Println(p.Match("build", true), p.Match("build/important.log", false))
	// Output:
	// true false
	// true true
}
