package relayd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"guild"
)

// openStore opens the file at path, or makes it. If it was open when the machine crashed, it is checked, and renamed if it
// is damaged: it is not flushed with every write.
func openStore(path string, c Config) (*store, error) {
	s := &store{path: path, maxSize: c.MaxStore, now: c.Now, log: c.Log}
	if s.interrupted() {
		if err := s.examine(); err != nil {
			return nil, err
		}
	}
	db, err := openBolt(path, !c.SyncAlways)
	if err != nil {
		return nil, fmt.Errorf("open the relay's store %s: %w", path, err)
	}
	s.db = db
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func openBolt(path string, noSync bool) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      time.Second, // another process holds it
		FreelistType: bbolt.FreelistMapType,
		NoSync:       noSync,
	})
}

// prepare makes the buckets and the mark that the file is open.
func (s *store) prepare() error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prepare the relay's store: %w", err)
	}
	if err := s.db.Sync(); err != nil {
		return fmt.Errorf("prepare the relay's store: %w", err)
	}
	if err := writeSynced(s.mark(), bootID()); err != nil {
		return fmt.Errorf("mark the relay's store: %w", err)
	}
	return nil
}

// Close flushes and closes the file.
func (s *store) Close() error {
	if err := errors.Join(s.db.Sync(), s.db.Close()); err != nil {
		return fmt.Errorf("close the relay's store: %w", err)
	}
	if err := os.Remove(s.mark()); err != nil {
		return fmt.Errorf("close the relay's store: %w", err)
	}
	return nil
}

// mark returns the name of a file that exists while the store is open and holds the machine's boot id. After a crash of the
// process alone the boot id is the same, and the system has all writes.
func (s *store) mark() string { return s.path + ".open" }

// interrupted reports whether the store was open when the machine, not just the process, crashed.
func (s *store) interrupted() bool {
	boot, err := os.ReadFile(s.mark())
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || len(boot) == 0 || !bytes.Equal(boot, bootID())
}

// bootID returns the id of this boot of the machine. It is empty on systems without one, where interrupted assumes a crash.
func bootID() []byte {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(id)
}

// examine checks the file page by page and renames a damaged one, so that the relay begins with an empty store.
func (s *store) examine() error {
	damage := checkFile(s.path)
	if damage == nil {
		return nil
	}
	aside := s.path + ".damaged-" + strconv.FormatInt(s.now().Unix(), 10)
	if err := os.Rename(s.path, aside); err != nil {
		return fmt.Errorf("put the damaged store aside: %w", err)
	}
	s.log.Warn("the relay's store was damaged when the machine went down; beginning anew", "damage", damage, "kept", aside)
	return nil
}

// checkFile returns an error for a damaged bbolt file. It returns nil if there is no file, or another process uses it. bbolt
// panics on some damaged pages, and the memory map faults on missing ones; checkFile turns both into errors.
func checkFile(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := openBolt(path, true)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(walk)
}

// walk reads all pages in use and checks the id of every event.
func walk(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(key, value []byte) error {
			if !bytes.Equal(name, bucketEvents) {
				return nil
			}
			e, ok := decode(value)
			if id := guild.EventID(e); !ok || !bytes.Equal(id[:], key) {
				return fmt.Errorf("event %x does not read back", key)
			}
			return nil
		})
	})
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
