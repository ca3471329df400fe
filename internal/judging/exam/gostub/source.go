package gostub

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"maps"
	"slices"
)

//go:embed description.go describe.go generate.go look.go main.go resolve.go select.go
var sources embed.FS

// Tool returns the files of a module of this package and a program that calls Main, by their names.
func Tool() (map[string]string, error) {
	files := map[string]string{
		"go.mod":  "module examtool\n\ngo 1.26\n",
		"main.go": "package main\n\nimport (\n\t\"os\"\n\n\t\"examtool/gostub\"\n)\n\nfunc main() { gostub.Main(os.Args[1:]) }\n",
	}
	entries, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		b, err := sources.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		files["gostub/"+e.Name()] = string(b)
	}
	return files, nil
}

// Version returns a short name of the tool's source.
func Version() string {
	files, err := Tool()
	if err != nil {
		return "unknown"
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.Write([]byte(name + "\x00" + files[name] + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
