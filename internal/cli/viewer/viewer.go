// Package viewer shows a bundle in a browser of this machine: an http.Handler over a tree of files. It is for reading.
// It runs nothing of what it shows, and withholds credentials, keys and hidden tests.
package viewer

import (
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"guild"
	"guild/internal/cli"
	"guild/nutshell"
)

// Config says what is shown, and to whom.
type Config struct {
	Port  int    // of 127.0.0.1, where it is served
	Token string // who has it may look

	Trees   func() (tree fs.FS, done func(), err error) // opens what is shown, for each request
	Name    string                                      // what is shown, as the person called it
	Packed  bool                                        // it is a bundle, not a directory
	Program string                                      // how the person calls this program
	Now     func() time.Time
}

// Viewer answers the requests of a browser. Whoever asks must have come to the right name (a foreign page whose own name
// was rebound to 127.0.0.1 has another Host), from no other page (Origin), and with the token.
type Viewer struct {
	Config
	hosts []string

	mu     sync.Mutex
	hashes map[string]hashedFile
}

// hashedFile is a hash that is good as long as the file looks the same.
type hashedFile struct {
	size    int64
	changed time.Time
	hash    guild.Hash
}

// New shows what the config says.
func New(c Config) *Viewer {
	v := &Viewer{Config: c, hashes: make(map[string]hashedFile)}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		v.hosts = append(v.hosts, name+":"+strconv.Itoa(c.Port))
		if c.Port == 80 {
			v.hosts = append(v.hosts, name)
		}
	}
	return v
}

// URL is the address that a person opens.
func (v *Viewer) URL() string {
	return "http://" + v.hosts[0] + "/?token=" + v.Token
}

// cookie is the name of the cookie with the token: cookies do not tell ports apart, so that it does.
func (v *Viewer) cookie() string { return "nutshell-" + strconv.Itoa(v.Port) }

// headers of every answer: nothing is run, loaded from elsewhere, framed, guessed, kept or passed on.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP implements http.Handler.
func (v *Viewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	switch {
	case !slices.Contains(v.hosts, strings.ToLower(r.Host)), !v.sameOrigin(r):
		refuse(w, http.StatusForbidden, "This page is only for this machine.")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "This page is only for reading.")
	case v.isToken(r.URL.Query().Get("token")):
		v.enter(w)
	case !v.entered(r):
		refuse(w, http.StatusForbidden, "Open the address that the program printed, with its token.")
	default:
		v.route(w, r)
	}
}

// sameOrigin reports whether a request comes from our own page, or from none.
func (v *Viewer) sameOrigin(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
		if !ok || !slices.Contains(v.hosts, host) {
			return false
		}
	}
	return true
}

func (v *Viewer) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(v.Token)) == 1
}

func (v *Viewer) entered(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(v.cookie()), func(c *http.Cookie) bool { return v.isToken(c.Value) })
}

// enter keeps the token in a cookie and leads to the page without it, so that it is not in the history. It is no
// redirect: after one, a browser that came from elsewhere would hold the cookie back.
func (v *Viewer) enter(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: v.cookie(), Value: v.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	show(w, "enter", nil)
}

// refuse answers with a sentence.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

//go:embed page.css
var stylesheet string

//go:embed page.html
var pages string

// parsed are the pages, which escape what they show.
var parsed = template.Must(template.New("").Funcs(template.FuncMap{"link": link, "size": cli.Size}).Parse(pages))

// show writes one of the pages.
func show(w http.ResponseWriter, page string, data any) {
	var b strings.Builder
	if parsed.ExecuteTemplate(&b, page, data) != nil {
		refuse(w, http.StatusInternalServerError, "The page cannot be made.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, b.String())
}

// link is the address of a file below prefix.
func link(prefix, path string) string { return (&url.URL{Path: prefix + path}).EscapedPath() }

// route finds what is asked for.
func (v *Viewer) route(w http.ResponseWriter, r *http.Request) {
	file, isFile := strings.CutPrefix(r.URL.Path, "/file/")
	raw, isRaw := strings.CutPrefix(r.URL.Path, "/raw/")
	switch {
	case r.URL.Path == "/":
		v.withTree(w, v.index)
	case r.URL.Path == "/style.css":
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		io.WriteString(w, stylesheet)
	case isFile:
		v.withTree(w, func(w http.ResponseWriter, s *shown) { v.file(w, s, file) })
	case isRaw:
		v.withTree(w, func(w http.ResponseWriter, s *shown) { v.raw(w, s, raw) })
	default:
		notThere(w)
	}
}

func notThere(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "There is nothing of this name here, or nothing that is shown.")
}

// withTree opens the tree for one request.
func (v *Viewer) withTree(w http.ResponseWriter, serve func(http.ResponseWriter, *shown)) {
	tree, done, err := v.Trees()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "The bundle cannot be read: "+cli.Clean(err.Error()))
		return
	}
	defer done()
	serve(w, newShown(tree))
}

// hash returns the hash of a file, from memory if it has not changed.
func (v *Viewer) hash(s *shown, f shownFile) (guild.Hash, error) {
	v.mu.Lock()
	known, ok := v.hashes[f.Path]
	v.mu.Unlock()
	if ok && known.size == f.Size && known.changed.Equal(f.changed) {
		return known.hash, nil
	}
	opened, err := s.tree.Open(f.Path)
	if err != nil {
		return guild.Hash{}, err
	}
	defer opened.Close()
	h := sha256.New()
	if _, err := io.Copy(h, opened); err != nil {
		return guild.Hash{}, err
	}
	known = hashedFile{f.Size, f.changed, guild.Hash(h.Sum(nil))}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hashes) > 2*nutshell.DefaultLimits().Entries {
		clear(v.hashes) // files that are no more
	}
	v.hashes[f.Path] = known
	return known.hash, nil
}
