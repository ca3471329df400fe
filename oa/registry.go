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

// MaxFiles limits the number of files that Load reads.
const MaxFiles = 256

// Registry holds descriptions of job types. It is immutable.
type Registry struct {
	schemas map[ID]Schema
}

// known parses the descriptions of the built-in job types once.
var known = sync.OnceValue(func() Registry {
	r, err := Registry{}.with(files, "schemas")
	if err != nil {
		panic(err) // cannot happen: they are embedded and tested
	}
	return r
})

// Known returns the registry of the four built-in job types.
func Known() Registry { return known() }

// builtin returns the description of a built-in job type.
func builtin(name string) Schema { return known().schemas[mustID(name)] }

// Load returns the built-in job types and those described by the files *.json in dir. It is an error to describe a job
// type twice. The error joins one error for each faulty file, with its name and the faulty member; the registry then
// has the other files.
func Load(dir fs.FS) (Registry, error) { return known().with(dir, ".") }

// with adds the descriptions in a directory. See Load.
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

// Schema returns the description of a job type. Without one the error wraps ErrUnknown and names another described
// version, if any.
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

// Schemas returns all descriptions, sorted by name and version.
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
