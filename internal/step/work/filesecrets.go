package work

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"guild/nutshell/vault"
)

// Limits of the search for secrets in files that a worker may read.
const (
	maxSecretFile  = 64 << 10 // bytes of a file; the rest is not read
	maxFileSecrets = 200      // of one file
	maxWalked      = 50_000   // files and directories below one directory
)

// secretFile matches the names of files that people keep secrets in.
var secretFile = regexp.MustCompile(`(?i)^(\.env(\..+)?|.+\.(pem|key|p8|env|token|secret)|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc|` +
	`\.git-credentials|\.credentials(\.json)?|credentials(\.json)?|auth\.json|(api[_-]?)?(key|keys|token|tokens|secret|secrets)(\.(txt|json|ya?ml))?)$`)

// minWord is the least length of a secret in a file, in bytes. Shorter words are often those of a language.
const minWord = 16

// longWord matches what may be a secret in a file: a long run of the characters that keys and passwords are made of.
var longWord = regexp.MustCompile(`[A-Za-z0-9_\-+/=.~!@#$%^&*]{16,}`)

// SecretsInFile lists what may be secret in the first 64 KiB of a text file: its words of 16 bytes or more that have letters and
// digits. In "NAME=value" the value alone is one, too. A file that is no text has none.
func SecretsInFile(path string) ([]Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil || !isText(text) {
		return nil, err
	}
	var all []Secret
	for _, w := range secretWords(string(text)) {
		all = append(all, Secret{What: "a word of the file " + path, Text: vault.NewSecret([]byte(w)), Owner: true})
	}
	return all, nil
}

// isFile reports whether a path is a regular file, or a link to one.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isText reports whether the beginning of a file is UTF-8. Its last letter may be cut.
func isText(b []byte) bool {
	for range utf8.UTFMax - 1 {
		if utf8.Valid(b) {
			return true
		}
		b = b[:len(b)-1]
	}
	return utf8.Valid(b)
}

// secretWords returns the different words of a text that may be secret, at most maxFileSecrets.
func secretWords(text string) []string {
	var words []string
	add := func(w string) {
		w = strings.Trim(w, "=.,;")
		if len(w) >= minWord && isMixed(w) && !arePaths(w) && !slices.Contains(words, w) && len(words) < maxFileSecrets {
			words = append(words, w)
		}
	}
	for _, found := range longWord.FindAllString(text, -1) {
		add(found)
		if _, value, ok := strings.Cut(found, "="); ok {
			add(value)
		}
	}
	return words
}

// isMixed reports whether a word has both letters and digits, and so is no word of a language and no number.
func isMixed(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.ContainsFunc(word, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
}

// SecretsInDirs lists what may be secret in files of these directories (or files) that have the name of a file for secrets. A
// path may be a link, as one that is mounted. It leaves out packages of Node.js, and what is not readable, because a worker
// cannot read that either. Of each directory it looks at the first 50,000 entries.
func SecretsInDirs(paths []string) []Secret {
	var all []Secret
	for _, top := range paths {
		left := maxWalked
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real // WalkDir follows no link
		}
		filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // an error is that of an entry, which is left out
			left--
			switch {
			case left < 0:
				return fs.SkipAll
			case err != nil:
				return nil
			case d.IsDir() && d.Name() == "node_modules":
				return fs.SkipDir
			case secretFile.MatchString(d.Name()) && isFile(path):
				found, _ := SecretsInFile(path)
				all = append(all, found...)
			}
			return nil
		})
	}
	return all
}
