package gowire

import "embed"

//go:embed call.go decode.go encode.go objects.go program.go wire.go
var both embed.FS

//go:embed run.go
var ofTests string

// Sources returns the files of this package for one side, by their names, but for the generated foreign.go. Only the
// side of the tests can report results.
func Sources(tests bool) (map[string]string, error) {
	files := map[string]string{}
	if tests {
		files["run.go"] = ofTests
	}
	entries, err := both.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		b, err := both.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		files[e.Name()] = string(b)
	}
	return files, nil
}
