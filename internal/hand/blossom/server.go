package blossom

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Config says where a server keeps its blobs and which it takes.
type Config struct {
	Dir string           // for the blobs, and nothing else
	URL string           // of the server, as "http://127.0.0.1:7447"
	Now func() time.Time // checks authorizations and stamps blobs

	MaxBlob  int64                          // bytes of one blob; 64 MiB if zero
	MaxStore int64                          // bytes of all blobs; 4 GiB if zero
	Upload   func(pubkey nostr.PubKey) bool // which keys may upload; all if nil; called concurrently
	Patience time.Duration                  // time for an upload, beside a second for each 64 KiB; 30 s if zero
	Log      *slog.Logger                   // slog.Default() if nil
}

// Server is the http.Handler of a Blossom server. Another handler in front of it must check origins and hosts.
type Server struct {
	config Config
	store  *store
	slots  chan struct{} // one element for each upload under way
}

// maxUploads bounds the uploads at a time. More are refused.
const maxUploads = 16

// slowest is the rate in bytes per second below which an upload is cut.
const slowest = 64 << 10

// descriptor describes a blob (BUD-02).
type descriptor struct {
	URL      string `json:"url"`
	SHA256   string `json:"sha256"` // hex
	Size     int64  `json:"size"`   // bytes
	Type     string `json:"type"`
	Uploaded int64  `json:"uploaded"` // Unix seconds
}

// contentType is the type of every blob. The server does not know the real one, and a browser must not guess.
const contentType = "application/octet-stream"

// Open opens the directory, or makes it, and removes uploads that a crash left unfinished.
func Open(c Config) (*Server, error) {
	c.MaxBlob = cmp.Or(c.MaxBlob, 64<<20)
	c.MaxStore = cmp.Or(c.MaxStore, 4<<30)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		return nil, errors.New("blossom: Config.Now is not set")
	}
	store, err := openStore(c.Dir, c.MaxStore)
	if err != nil {
		return nil, err
	}
	return &Server{config: c, store: store, slots: make(chan struct{}, maxUploads)}, nil
}

// Close closes the directory. No request may be under way.
func (s *Server) Close() error { return s.store.root.Close() }

// refusal is an error with an HTTP status.
type refusal struct {
	status int
	reason string
}

func (r refusal) Error() string { return r.reason }

// ServeHTTP answers PUT /upload, GET and HEAD /<sha256>[.ext], GET /list/<pubkey> and DELETE /<sha256>.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := s.route(w, r)
	if err == nil {
		return
	}
	answer, ok := errors.AsType[refusal](err)
	if !ok {
		s.config.Log.Error("blob request failed", "method", r.Method, "path", r.URL.Path, "err", err)
		answer = refusal{http.StatusInternalServerError, "internal error"}
	}
	w.Header().Set("X-Reason", answer.reason)
	http.Error(w, answer.reason, answer.status)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/")
	owner, isList := strings.CutPrefix(name, "list/")
	switch {
	case name == "upload" && r.Method == http.MethodPut:
		return s.upload(w, r)
	case isList && r.Method == http.MethodGet:
		return s.list(w, r, owner)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return s.serve(w, r, name)
	case r.Method == http.MethodDelete:
		return s.remove(w, r, name)
	default:
		return refusal{http.StatusMethodNotAllowed, "no such verb"}
	}
}

// upload streams the body to a temporary file and renames it when its hash is known. All checks that need no content come
// before the first byte is read.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	auth, err := s.admitUpload(r)
	if err != nil {
		return closing(w, err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return closing(w, refusal{http.StatusServiceUnavailable, "too many uploads"})
	}
	size := r.ContentLength
	if size < 0 {
		size = s.config.MaxBlob
	}
	if err := s.store.reserve(size); err != nil {
		return closing(w, refusal{http.StatusInsufficientStorage, err.Error()})
	}
	defer s.store.release(size)
	stop := s.limitTime(w, size)
	defer stop()
	d, err := s.receive(r, auth)
	if err != nil {
		return closing(w, err)
	}
	return writeJSON(w, d)
}

// closing ends the connection with the answer, so that the rest of the body is not read.
func closing(w http.ResponseWriter, err error) error {
	w.Header().Set("Connection", "close")
	return err
}

func (s *Server) admitUpload(r *http.Request) (authorization, error) {
	if r.ContentLength > s.config.MaxBlob {
		return authorization{}, tooLarge
	}
	auth, err := authorize(r, verbUpload, s.config.Now())
	if err != nil {
		return auth, refusal{http.StatusUnauthorized, err.Error()}
	}
	if len(auth.hashes) == 0 {
		return auth, refusal{http.StatusUnauthorized, "authorization: names no blob"}
	}
	if s.config.Upload != nil && !s.config.Upload(auth.pubkey) {
		return auth, refusal{http.StatusForbidden, "this key may not upload here"}
	}
	if announced := r.Header.Get("X-SHA-256"); announced != "" {
		if hash, err := guild.ParseHash(announced); err != nil || !auth.names(hash) {
			return auth, refusal{http.StatusForbidden, "authorization: names another blob"}
		}
	}
	return auth, nil
}

var tooLarge = refusal{http.StatusRequestEntityTooLarge, "the blob is too large"}

// limitTime cuts an upload that is too slow.
func (s *Server) limitTime(w http.ResponseWriter, size int64) (stop func() bool) {
	patience := s.config.Patience + time.Duration(size/slowest)*time.Second
	controller := http.NewResponseController(w)
	return time.AfterFunc(patience, func() {
		controller.SetReadDeadline(time.Unix(1, 0)) // in the past, so that the read under way fails
	}).Stop
}

// receive reads the body into the store.
func (s *Server) receive(r *http.Request, auth authorization) (descriptor, error) {
	f, temp, err := s.store.temp()
	if err != nil {
		return descriptor{}, err
	}
	defer s.store.root.Remove(temp) // it has another name if it was placed
	hash, size, err := s.copyBody(f, r.Body)
	err = errors.Join(err, f.Close())
	if err != nil {
		return descriptor{}, err
	}
	if !auth.names(hash) {
		return descriptor{}, refusal{http.StatusForbidden, "the blob is " + hash.Hex() + ", which the authorization does not name"}
	}
	uploaded, err := s.store.place(temp, hash, size, auth.pubkey, s.config.Now().Unix())
	return s.describe(hash, size, uploaded), err
}

// copyBody copies at most MaxBlob bytes and flushes them. The announced length does not matter.
func (s *Server) copyBody(f *os.File, body io.Reader) (hash guild.Hash, size int64, err error) {
	digest := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, digest), io.LimitReader(body, s.config.MaxBlob+1))
	_, ours := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return hash, size, refusal{http.StatusInsufficientStorage, errNoRoom.Error()}
	case ours:
		return hash, size, err
	case err != nil:
		return hash, size, refusal{http.StatusBadRequest, "the upload was cut: " + err.Error()}
	case size > s.config.MaxBlob:
		return hash, size, tooLarge
	}
	digest.Sum(hash[:0])
	return hash, size, f.Sync()
}

func (s *Server) describe(hash guild.Hash, size, uploaded int64) descriptor {
	return descriptor{URL: s.config.URL + "/" + hash.Hex(), SHA256: hash.Hex(), Size: size, Type: contentType, Uploaded: uploaded}
}

// serve sends a blob, or a range of it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, name string) error {
	hash, err := blobName(name)
	if err != nil {
		return err
	}
	f, err := s.store.open(hash)
	if err != nil {
		return notFound
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", `"`+hash.Hex()+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

var notFound = refusal{http.StatusNotFound, "no such blob"}

// blobName reads <sha256> or <sha256>.<ext>. Only the hash is used for a file name.
func blobName(name string) (guild.Hash, error) {
	digits, ext, _ := strings.Cut(name, ".")
	hash, err := guild.ParseHash(digits)
	if err != nil || strings.HasPrefix(digits, "sha256:") || strings.ContainsAny(ext, "/\\") {
		return guild.Hash{}, notFound
	}
	return hash, nil
}

// list lists the blobs of a key to the owner of that key only. Whoever knows the address of a blob can fetch it.
func (s *Server) list(w http.ResponseWriter, r *http.Request, owner string) error {
	pubkey, err := nostr.PubKeyFromHex(owner)
	if err != nil {
		return notFound
	}
	auth, err := authorize(r, verbList, s.config.Now())
	if err != nil {
		return refusal{http.StatusUnauthorized, err.Error()}
	}
	if auth.pubkey != pubkey {
		return refusal{http.StatusForbidden, "a key lists its own blobs only"}
	}
	return writeJSON(w, s.store.owned(pubkey, s.describe))
}

// remove removes a key's claim to a blob that it uploaded.
func (s *Server) remove(w http.ResponseWriter, r *http.Request, name string) error {
	hash, err := blobName(name)
	if err != nil {
		return err
	}
	auth, err := authorize(r, verbDelete, s.config.Now())
	if err != nil {
		return refusal{http.StatusUnauthorized, err.Error()}
	}
	if !auth.names(hash) {
		return refusal{http.StatusForbidden, "authorization: names another blob"}
	}
	removed, err := s.store.remove(hash, auth.pubkey)
	if err != nil {
		return err
	}
	if !removed {
		return notFound
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return json.NewEncoder(w).Encode(v)
}
