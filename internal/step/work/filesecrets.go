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

// word matches what may be a secret in a file: a long run of the characters that keys and passwords are made of.
var word = regexp.MustCompile(`[A-Za-z0-9_\-+/=.~!@#$%^&*]{16,}`)

// SecretsInFile lists what may be secret in a file: its long words that have letters and digits. In "NAME=value" the value
// alone is one, too.
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
	if err != nil || !utf8.Valid(text) {
		return nil, err
	}
	var once []string
	for _, found := range word.FindAllString(string(text), -1) {
		_, value, assigned := strings.Cut(found, "=")
		for _, one := range []string{found, value} {
			one = strings.Trim(one, "=.,;")
			if len(one) >= 16 && isMixed(one) && !arePaths(one) && !slices.Contains(once, one) && len(once) < maxFileSecrets {
				once = append(once, one)
			}
			if !assigned {
				break
			}
		}
	}
	var all []Secret
	for _, one := range once {
		all = append(all, Secret{What: "a word of the file " + path, Text: vault.NewSecret([]byte(one)), Owner: true})
	}
	return all, nil
}

// isMixed reports whether a word has both letters and digits, and so is no word of a language and no number.
func isMixed(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.ContainsFunc(word, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
}

// SecretsInDirs lists what may be secret in files of these directories (or files) that have the name of a file for secrets.
// It leaves out packages of Node.js, and what is not readable: a worker cannot read that either.
func SecretsInDirs(paths []string) []Secret {
	var all []Secret
	for _, top := range paths {
		left := maxWalked
		filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // an error is that of an entry, which is left out
			left--
			switch {
			case left < 0:
				return fs.SkipAll
			case err != nil:
				return nil
			case d.IsDir() && d.Name() == "node_modules":
				return fs.SkipDir
			case d.Type().IsRegular() && secretFile.MatchString(d.Name()):
				found, _ := SecretsInFile(path)
				all = append(all, found...)
			}
			return nil
		})
	}
	return all
}
