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
	"guild/internal/blossom"
	"guild/internal/fact"
)

// parcels moves bundles that are too large for an event.
type parcels struct {
	client  *blossom.Client
	home    []string // servers, tried in turn
	scratch string
}

// upload puts a bundle on the first server that takes it, sealed with a new key if asked to.
func (p parcels) upload(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error) {
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

// fetch brings a bundle. What is sealed is addressed by the hash of its ciphertext, which the URL holds.
func (p parcels) fetch(ctx context.Context, at fact.Place, want guild.Hash, size int64) (io.ReadCloser, error) {
	const overhead = 1 << 20                               // of sealing
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // the server is a stranger's
	defer cancel()
	f, err := os.CreateTemp(p.scratch, "parcel-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // it lives as long as it is open
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

func (p parcels) unseal(ctx context.Context, at fact.Place, want guild.Hash, size, overhead int64, to io.Writer) error {
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
		return fmt.Errorf("%s names no blob: %w", at.URL, err)
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
