package bubblewrap

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"guild/internal/sandbox"
)

// overlay is what read-only copies put at one place, the later ones over the earlier. They are not copied: the
// host's own files are shown, for nobody inside can change them.
type overlay struct {
	host    string              // a file, or a directory that can be shown as it stands; else empty
	entries map[string]*overlay // nil for a file
}

// readOnly shows the read-only copies.
func (a *arguments) readOnly(copies []sandbox.Copy) {
	places := map[string]*overlay{}
	for _, c := range copies {
		if !c.ReadOnly {
			continue
		}
		inside := path.Clean(c.Inside)
		if places[inside] == nil {
			places[inside] = &overlay{}
		}
		if err := places[inside].read(c); err != nil && a.err == nil {
			a.err = fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	for _, inside := range slices.Sorted(maps.Keys(places)) {
		o := places[inside]
		if o.host != "" {
			a.add("--ro-bind", o.host, inside)
			continue
		}
		a.add("--perms", "0755", "--tmpfs", inside)
		a.show(o, inside)
		a.add("--remount-ro", inside)
	}
}

// show binds what is in a directory: files, and whole directories where that is the same.
func (a *arguments) show(o *overlay, inside string) {
	for _, name := range slices.Sorted(maps.Keys(o.entries)) {
		e, at := o.entries[name], path.Join(inside, name)
		if e.host != "" {
			a.add("--ro-bind", e.host, at)
			continue
		}
		a.add("--dir", at)
		a.show(e, at)
	}
}

// read lays a copy's directory over what is there.
func (o *overlay) read(c sandbox.Copy) error {
	root, err := os.OpenRoot(c.Host)
	if err != nil {
		return err
	}
	defer root.Close()
	return o.directory(root.FS(), c, ".")
}

func (o *overlay) directory(files fs.FS, c sandbox.Copy, dir string) error {
	list, err := fs.ReadDir(files, dir)
	if err != nil {
		return err
	}
	whole := o.entries == nil
	o.host = ""
	if o.entries == nil {
		o.entries = map[string]*overlay{}
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		if c.Skip != nil && c.Skip(name) {
			whole = false
			continue
		}
		switch old := o.entries[d.Name()]; {
		case d.Type().IsRegular():
			o.entries[d.Name()] = &overlay{host: filepath.Join(c.Host, name)}
			continue
		case !d.IsDir():
			return fmt.Errorf("%s: only files and directories are copied", name)
		case old == nil || old.entries == nil:
			o.entries[d.Name()] = &overlay{}
		}
		if err := o.entries[d.Name()].directory(files, c, name); err != nil {
			return err
		}
		whole = whole && o.entries[d.Name()].host != ""
	}
	if whole {
		o.host = filepath.Join(c.Host, dir)
	}
	return nil
}
