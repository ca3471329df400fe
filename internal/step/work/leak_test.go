package work

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"guild/nutshell/vault"
)

func isLeak(err error) bool { _, ok := errors.AsType[*leakError](err); return ok }

// through packs a text with a writer of a compressed format.
func through(t *testing.T, text []byte, open func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := open(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, text []byte) []byte {
	return through(t, text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

// zipped returns a zip archive with one member.
func zipped(t *testing.T, name string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, name string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	w.Write(text)
	w.Close()
	return b.Bytes()
}

func TestSecretInCompressedFiles(t *testing.T) {
	w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(apiKey))}})
	text := []byte("the key: " + apiKey)
	for how, content := range map[string][]byte{
		"gzip":        gzipped(t, text),
		"zlib":        through(t, text, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"zstd":        through(t, text, func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }),
		"zip":         zipped(t, "a.txt", text),
		"name in zip": zipped(t, apiKey+".txt", nil),
		"tar.gz":      gzipped(t, tarred(t, "a.txt", text)),
		"zip in gzip": gzipped(t, zipped(t, "a.txt", text)),
		"gzip in zip": zipped(t, "a.gz", gzipped(t, text)),
		"cut gzip":    gzipped(t, append(text, bytes.Repeat([]byte("0123456789"), 100)...))[:80],
	} {
		err := w.leak(fstest.MapFS{"a": {Data: []byte("harmless")}, "b.bin": {Data: content}, "c": {Data: []byte("more")}})
		if !isLeak(err) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

func TestSecretSpreadOverFiles(t *testing.T) {
	const key = "sk-owner-0123456789abcdef"
	w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(key))}})
	contents, names := fstest.MapFS{}, fstest.MapFS{}
	for i := range 5 {
		part := key[i*5 : i*5+5]
		contents[fmt.Sprintf("part%d", i)] = &fstest.MapFile{Data: []byte(part + "\n")}
		names[fmt.Sprintf("%d/%s", i, part)] = &fstest.MapFile{Data: []byte("x")}
	}
	if err := w.leak(contents); !isLeak(err) {
		t.Errorf("contents: %v", err)
	}
	if err := w.leak(names); !isLeak(err) {
		t.Errorf("names: %v", err)
	}
}

func TestPackedDeliveryIsBounded(t *testing.T) {
	w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(apiKey))}})
	w.most = 8 << 20
	bomb := through(t, nil, func(out io.Writer) io.WriteCloser {
		z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
		for zeros := bytes.Repeat([]byte("0"), 1<<20); ; {
			z.Write(zeros)
			if b := out.(*bytes.Buffer); b.Len() > 45<<10 { // some 10 MiB
				return z
			}
		}
	})
	if err := w.leak(fstest.MapFS{"bomb.gz": {Data: bomb}}); !errors.Is(err, errTooPacked) {
		t.Errorf("%v", err)
	}
	if err := newWatch(nil).leak(fstest.MapFS{"bomb.gz": {Data: bomb}}); err != nil {
		t.Errorf("there is nothing to look for: %v", err)
	}
}

func TestDamagedArchivesAreNoError(t *testing.T) {
	w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(apiKey))}})
	for _, head := range []string{"\x1f\x8b", "\x1f\x8b\x08\x00", "PK\x03\x04", "BZh9", "\x28\xb5\x2f\xfd", "\x78\x9c", "\x78"} {
		if err := w.leak(fstest.MapFS{"f": {Data: []byte(head + "garbage that is no archive")}}); err != nil {
			t.Errorf("%q: %v", head, err)
		}
	}
}

func TestSecretsInMountedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".env", "# settings\nexport DB_TOKEN=abc123def456ghi789\nMODE=production\nHOST=db.internal.example\n")
	write("home/.claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"sk-ant-oat01-AAAAbbbb1111","expiresAt":1795734657009}}`)
	write("deploy.pem", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n")
	write("node_modules/pkg/.env", "TOKEN=abcdefgh12345678zz\n")
	write("README.md", "The token is abc123abc123abc123.\n")
	var all []string
	for _, s := range SecretsInDirs([]string{dir}) {
		if !s.Owner {
			t.Errorf("%s is not the owner's", s.What)
		}
		all = append(all, string(s.Text.Reveal()))
	}
	got := strings.Join(all, "\n")
	for _, want := range []string{"abc123def456ghi789", "sk-ant-oat01-AAAAbbbb1111", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not among\n%s", want, got)
		}
	}
	for _, not := range []string{"production", "db.internal.example", "PRIVATE", "1795734657009", "abcdefgh12345678zz", "abc123abc123abc123"} {
		if strings.Contains(got, not) {
			t.Errorf("%s is among\n%s", not, got)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(dir, link), os.Symlink("README.md", filepath.Join(dir, "api_key"))); err != nil {
		t.Fatal(err)
	}
	if found := SecretsInDirs([]string{link}); len(found) != len(all)+1 {
		t.Errorf("%d secrets behind a link, want %d", len(found), len(all)+1)
	}
	// The limit of what is read may be in the middle of a letter.
	write("long.env", "TOKEN=sk1234567890abcdefgh\n"+strings.Repeat("é", maxSecretFile)+"\n")
	write("binary.key", "abc123abc123abc123\xff\xfe\xfd and more of a binary file")
	for name, want := range map[string]int{"long.env": 2, "binary.key": 0} { // the assignment, and its value alone
		if found, err := SecretsInFile(filepath.Join(dir, name)); err != nil || len(found) != want {
			t.Errorf("%s: %d secrets, %v, want %d", name, len(found), err, want)
		}
	}
	if _, err := SecretsInFile(dir); err == nil {
		t.Error("a directory is a file")
	}
	if _, err := SecretsInFile(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
