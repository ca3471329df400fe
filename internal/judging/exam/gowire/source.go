package gowire

import "embed"

//go:embed call.go decode.go describe.go encode.go objects.go program.go wire.go
var both embed.FS

//go:embed run.go
var ofTests string

// language raises the version of the language, which is that of the module otherwise.
const language = "//go:build go1.24\n\n"

// Sources returns the files of this package for one side, by their names, but for the generated foreign.go. Only the
// side of the tests can report results.
func Sources(tests bool) (map[string]string, error) {
	files := map[string]string{}
	if tests {
		files["run.go"] = language + ofTests
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
		files[e.Name()] = language + string(b)
	}
	return files, nil
}
