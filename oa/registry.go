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

// Load is the four job types and those that the files *.json in dir describe. A job type may be described once. The error
// joins one for each file that is no description, which names it and the member in it; the registry is that of the others.
func Load(dir fs.FS) (Registry, error) { return known().with(dir, ".") }

// with adds the descriptions in a directory, as Load has it.
func (r Registry) with(dir fs.FS, at string) (Registry, error) {
	entries, err := fs.ReadDir(dir, at)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("descriptions of job types: %w", err)
	}
	var wrong []error
	all := map[ID]Schema{}
	for id, s := range r.schemas {
		all[id] = s
	}
	count := 0
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".json") {
			continue
		}
		count++
		if count > MaxFiles {
			wrong = append(wrong, fmt.Errorf("descriptions of job types: more than %d files: %w", MaxFiles, ErrTooBig))
			break
		}
		s, err := readSchema(dir, strings.TrimPrefix(at+"/"+entry.Name(), "./"))
		if _, twice := all[s.ID]; twice && err == nil {
			err = fmt.Errorf("schema_id: %s is described already", s.ID)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", entry.Name(), err))
			continue
		}
		all[s.ID] = s
	}
	return Registry{all}, errors.Join(wrong...)
}

func readSchema(dir fs.FS, name string) (Schema, error) {
	f, err := dir.Open(name)
	if err != nil {
		return Schema{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSchema+1))
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("%w: it is empty", ErrSchema)
	}
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
