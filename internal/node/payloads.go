package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"time"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/journal/fact"
)

// payloads transfers data that is too large for an event, by Blossom.
type payloads struct {
	client  *blossom.Client
	home    []string // servers, in order of preference
	scratch string
}

// Upload stores a bundle on the first server that accepts it, and returns its URL. If seal is set, it encrypts the
// bundle with a new key and returns the key too.
func (p payloads) Upload(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error) {
	body, hash := bundle, guild.Sum(bundle)
	if seal {
		var cipher bytes.Buffer
		sealed, err := blossom.Seal(bytes.NewReader(bundle), &cipher)
		if err != nil {
			return "", nil, err
		}
		secret := [32]byte(sealed.Key)
		body, hash, key = cipher.Bytes(), sealed.Cipher, &secret
	}
	err = errors.New("no Blossom server is configured")
	for _, server := range p.home {
		if url, err = p.client.Upload(ctx, server, bytes.NewReader(body), int64(len(body)), hash); err == nil {
			return url, key, nil
		}
	}
	return "", nil, err
}

// Fetch downloads a bundle to a file, which the caller closes. An encrypted bundle is addressed by the hash of its
// ciphertext, which is the end of the URL.
//
// The file is removed while it is open, so a crash leaves no payload behind.
func (p payloads) Fetch(ctx context.Context, at fact.Place, want guild.Hash, size int64) (io.ReadCloser, error) {
	const overhead = 1 << 20                               // of the encryption
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // a stranger chose the server
	defer cancel()
	f, err := os.CreateTemp(p.scratch, "payload-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // the file exists until it is closed
	if at.Key == "" {
		_, err = p.client.Download(ctx, at.URL, want, size, f)
	} else {
		err = p.unseal(ctx, at, want, size, overhead, f)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unseal downloads a ciphertext and decrypts it to a file. The hash and the size of the plaintext are checked while
// decrypting.
func (p payloads) unseal(ctx context.Context, at fact.Place, want guild.Hash, size, overhead int64, to io.Writer) error {
	key, err := blossom.ParseKey(at.Key)
	if err != nil {
		return err
	}
	location, err := url.Parse(at.URL)
	if err != nil {
		return err
	}
	cipher, err := guild.ParseHash(path.Base(location.Path))
	if err != nil {
		return fmt.Errorf("%s does not end with the hash of a blob: %w", at.URL, err)
	}
	sealed, err := os.CreateTemp(p.scratch, "sealed-")
	if err != nil {
		return err
	}
	os.Remove(sealed.Name())
	defer sealed.Close()
	if _, err := p.client.Download(ctx, at.URL, cipher, size+size/16+overhead, sealed); err != nil {
		return err
	}
	if _, err := sealed.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return blossom.OpenSealed(sealed, to, key, want, size)
}

// store uploads a blob to every server, and returns its URLs. It returns an error only if no server accepted it.
func (p payloads) store(ctx context.Context, b []byte) (urls []string, err error) {
	if len(p.home) == 0 {
		return nil, errors.New("no Blossom server is configured")
	}
	hash, failed := guild.Sum(b), []error{}
	for _, server := range p.home {
		at, err := p.client.Upload(ctx, server, bytes.NewReader(b), int64(len(b)), hash)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		urls = append(urls, at)
	}
	if len(urls) > 0 {
		return urls, nil
	}
	return nil, errors.Join(failed...)
}

// maxLoaded is the largest blob that load returns, in bytes.
const maxLoaded = 64 << 20

// load downloads a blob from the first URL that serves it.
func (p payloads) load(ctx context.Context, urls []string, hash guild.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := errors.New("no URL is known")
	for _, at := range urls {
		var b bytes.Buffer
		if _, err = p.client.Download(ctx, at, hash, maxLoaded, &b); err == nil {
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("blob %s: %w", hash, err)
}

// urls returns the URLs of a blob on our servers, whether or not it is there.
func (p payloads) urls(hash guild.Hash) (urls []string) {
	for _, server := range p.home {
		if at, err := url.JoinPath(server, hash.Hex()); err == nil {
			urls = append(urls, at)
		}
	}
	return urls
}
