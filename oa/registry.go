package oa

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed schemas/*.json
var files embed.FS

// MaxFiles is how many descriptions Load reads.
const MaxFiles = 256

// Registry is the job types that are described. It does not change.
type Registry struct {
	schemas map[ID]Schema
}

// known reads the descriptions of the four job types, once.
var known = sync.OnceValue(func() Registry {
	r, err := Registry{}.with(files, "schemas")
	if err != nil {
		panic(err) // they are part of the program, and tested
	}
	return r
})

// Known is the four job types of the surface.
func Known() Registry { return known() }

// builtin is the description of a job type that is known.
func builtin(name string) Schema { return known().schemas[mustID(name)] }

// Load is the four job types and those that the files *.json in dir describe. A job type may be described once. Errors
// name the file, and the member in it.
func Load(dir fs.FS) (Registry, error) { return known().with(dir, ".") }

// with adds the descriptions in a directory.
func (r Registry) with(dir fs.FS, at string) (Registry, error) {
	entries, err := fs.ReadDir(dir, at)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return Registry{}, fmt.Errorf("descriptions of job types: %w", err)
	}
	all := map[ID]Schema{}
	for id, s := range r.schemas {
		all[id] = s
	}
	count := 0
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".json") {
			continue
		}
		if count++; count > MaxFiles {
			return Registry{}, fmt.Errorf("descriptions of job types: more than %d files: %w", MaxFiles, ErrTooBig)
		}
		s, err := readSchema(dir, strings.TrimPrefix(at+"/"+entry.Name(), "./"))
		if err != nil {
			return Registry{}, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		if _, twice := all[s.ID]; twice {
			return Registry{}, fmt.Errorf("%s: schema_id: %s is described already", entry.Name(), s.ID)
		}
		all[s.ID] = s
	}
	return Registry{all}, nil
}

func readSchema(dir fs.FS, name string) (Schema, error) {
	f, err := dir.Open(name)
	if err != nil {
		return Schema{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSchema+1))
	if err != nil {
		return Schema{}, err
	}
	return ParseSchema(text)
}

// Schema is the description of a job type. Without one it is ErrUnknown, which says which versions are described.
func (r Registry) Schema(id ID) (Schema, error) {
	if s, ok := r.schemas[id]; ok {
		return s, nil
	}
	for _, s := range r.Schemas() {
		if s.ID.Name == id.Name {
			return Schema{}, fmt.Errorf("%s: %w: there is %s", id, ErrUnknown, s.ID)
		}
	}
	return Schema{}, fmt.Errorf("%s: %w", id, ErrUnknown)
}

// Schemas are all descriptions, by name and version.
func (r Registry) Schemas() []Schema {
	all := make([]Schema, 0, len(r.schemas))
	for _, s := range r.schemas {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Schema) int {
		return cmp.Or(strings.Compare(a.ID.Name, b.ID.Name), cmp.Compare(a.ID.Version, b.ID.Version))
	})
	return all
}
