package main

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// Directories to mount a file system on for a moment. Every host has one of each kind.
var (
	rootAnchors    = []string{"/tmp", "/usr"}
	scratchAnchors = []string{"/etc", "/dev"}
)

// build makes the file system of the plan and moves into it. It takes copies of the host's mounts before the new
// root hides them, and of /proc: the kernel allows a new /proc only while an old one is visible.
func (f *first) build() error {
	trees, err := f.hold()
	if err != nil {
		return err
	}
	proc, err := openProc(f.plan.Proc)
	if err != nil {
		return err
	}
	parts, err := f.makeScratch()
	if err != nil {
		return err
	}
	if err := enterRoot(); err != nil {
		return err
	}
	if err := f.furnish(trees, proc, parts); err != nil {
		return err
	}
	if err := restrictMount("/", unix.MOUNT_ATTR_RDONLY, 0); err != nil {
		return failure{"make the root read-only", err}
	}
	return f.identify()
}

// identify sets the host name and starts the loopback.
func (f *first) identify() error {
	if f.plan.Hostname != "" {
		if err := unix.Sethostname([]byte(f.plan.Hostname)); err != nil {
			return failure{"sethostname", err}
		}
	}
	if f.plan.Loopback {
		return startLoopback()
	}
	return nil
}

// hold takes a restricted copy of every mount of the plan; -1 for one that does not exist.
func (f *first) hold() ([]int, error) {
	held := make([]int, len(f.plan.Binds))
	for i, b := range f.plan.Binds {
		if b.Tree > 0 {
			if b.Tree > len(f.trees) {
				return nil, failure{"tree of " + b.Inside, unix.EBADF}
			}
			held[i] = f.trees[b.Tree-1]
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.From, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		switch {
		case b.Optional && (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES):
			held[i] = -1
			continue
		case err != nil:
			return nil, failure{"open_tree " + b.From, err}
		}
		attributes := unix.MOUNT_ATTR_NOSUID
		if !b.Device {
			attributes |= unix.MOUNT_ATTR_NODEV
		}
		if !b.Writable {
			attributes |= unix.MOUNT_ATTR_RDONLY
		}
		if err := restrict(fd, attributes); err != nil {
			return nil, failure{"mount_setattr " + b.From, err}
		}
		held[i] = fd
	}
	return held, nil
}

// restrict sets attributes of a whole tree, and makes it private, so that later mounts of the host do not appear.
func restrict(fd, attributes int) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: uint64(attributes), Propagation: unix.MS_PRIVATE,
	})
}

// restrictMount sets attributes of the mount at a path.
func restrictMount(at string, attributes, flags int) error {
	return unix.MountSetattr(unix.AT_FDCWD, at, uint(flags), &unix.MountAttr{Attr_set: uint64(attributes)})
}

// mountNew makes a detached file system with options, given as pairs of name and value.
func mountNew(kind string, attributes int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, failure{"fsopen " + kind, err}
	}
	defer unix.Close(fs)
	for i := 0; i < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return -1, failure{"fsconfig " + kind + " " + options[i], err}
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, failure{"mount " + kind, err}
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, failure{"mount " + kind, err}
	}
	return fd, nil
}

const noCode = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// openProc makes a detached mount of /proc of our process namespace; -1 for none.
func openProc(p plan.Proc) (int, error) {
	switch p {
	case plan.NoProc:
		return -1, nil
	case plan.FullProc:
		return mountNew("proc", noCode)
	default:
		return mountNew("proc", noCode|unix.MOUNT_ATTR_RDONLY, "hidepid", "invisible", "subset", "pid")
	}
}

// enterRoot makes an empty file system the root and unmounts the old one.
func enterRoot() error {
	root, err := mountNew("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "size", "2m", "nr_inodes", "4096", "mode", "0755")
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if _, err := attach(root, rootAnchors); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return failure{"chdir to the root", err}
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now on top of the new one
		return failure{"pivot_root", err}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return failure{"unmount the old root", err}
	}
	return chdir("/")
}

// attach mounts a detached mount on the first of some directories that accepts it, and returns that directory.
func attach(fd int, candidates []string) (string, error) {
	var err error
	for _, at := range candidates {
		if err = unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err == nil {
			return at, nil
		}
	}
	return "", failure{"mount in a new namespace", err}
}

func chdir(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return failure{"chdir " + dir, err}
	}
	return nil
}

// furnish fills the root, which is still writable.
func (f *first) furnish(trees []int, proc int, parts []int) error {
	for _, dir := range f.plan.Dirs {
		if err := f.makeDirs(dir); err != nil {
			return err
		}
	}
	if proc >= 0 {
		if err := f.mountAt(proc, "/proc"); err != nil {
			return err
		}
	}
	for i, p := range f.plan.Scratch.Parts {
		if err := f.mountAt(parts[i], p.Inside); err != nil {
			return err
		}
	}
	for i, b := range f.plan.Binds {
		if trees[i] < 0 {
			continue
		}
		if err := f.mountAt(trees[i], b.Inside); err != nil {
			return err
		}
	}
	for _, dir := range f.plan.Hidden {
		empty, err := mountNew("tmpfs", noCode|unix.MOUNT_ATTR_RDONLY, "size", "4k", "mode", "0755")
		if err != nil {
			return err
		}
		if err := f.mountAt(empty, dir); err != nil {
			return err
		}
	}
	for _, l := range f.plan.Links {
		if err := f.makeDirs(path.Dir(l.Inside)); err != nil {
			return err
		}
		if err := unix.Symlink(l.To, l.Inside); err != nil {
			return failure{"symlink " + l.Inside, err}
		}
	}
	for _, file := range f.plan.Files {
		if err := f.makeFile(file); err != nil {
			return err
		}
	}
	if f.plan.Terminal {
		return f.makeTerminals()
	}
	return nil
}

func (f *first) makeFile(file plan.File) error {
	if err := f.makeDirs(path.Dir(file.Inside)); err != nil {
		return err
	}
	fd, err := unix.Open(file.Inside, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return failure{"make " + file.Inside, err}
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, []byte(file.Content)); n != len(file.Content) {
		return failure{"write " + file.Inside, err}
	}
	return nil
}

// makeTerminals mounts a new /dev/pts.
func (f *first) makeTerminals() error {
	pts, err := mountNew("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode", "0666", "mode", "620")
	if err != nil {
		return err
	}
	return f.mountAt(pts, "/dev/pts")
}

// mountAt mounts a detached mount at a path, makes its mount point if necessary, and closes the descriptor.
func (f *first) mountAt(fd int, at string) error {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failure{"stat " + at, err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := f.makeDirs(at); err != nil {
			return err
		}
	} else if err := f.makePlace(at); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return failure{"mount " + at, err}
	}
	return nil
}

// makePlace makes an empty file as the mount point of a file.
func (f *first) makePlace(at string) error {
	if err := f.makeDirs(path.Dir(at)); err != nil {
		return err
	}
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err == unix.EEXIST {
		return nil
	} else if err != nil {
		return failure{"make " + at, err}
	}
	unix.Close(fd)
	return nil
}

// makeDirs makes a directory and its parents. In the scratch file system they belong to the command's user.
func (f *first) makeDirs(dir string) error {
	err := unix.Mkdir(dir, 0o755)
	if err == unix.ENOENT {
		if err := f.makeDirs(path.Dir(dir)); err != nil {
			return err
		}
		err = unix.Mkdir(dir, 0o755)
	}
	switch {
	case err == unix.EEXIST:
		return nil
	case err != nil:
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil // such as EROFS for a directory that exists
		}
		return failure{"mkdir " + dir, err}
	case f.inScratch(dir):
		return f.give(dir)
	default:
		return nil
	}
}

func (f *first) inScratch(dir string) bool {
	for _, p := range f.plan.Scratch.Parts {
		if strings.HasPrefix(dir, p.Inside+"/") {
			return true
		}
	}
	return false
}

// give makes the command's user the owner.
func (f *first) give(dir string) error {
	if !f.plan.Change {
		return nil
	}
	if err := unix.Lchown(dir, f.plan.User, f.plan.User); err != nil {
		return failure{"chown " + dir, err}
	}
	return nil
}
