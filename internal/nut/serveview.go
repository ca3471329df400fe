package nut

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

// viewer answers the requests of serve. Whoever asks must have come to the right name (a foreign page whose own name
// was rebound to 127.0.0.1 has another Host), from no other page (Origin), and with the token.
type viewer struct {
	port    int
	token   string
	hosts   []string
	trees   func() (fs.FS, func(), error)
	name    string // what is shown, as the person called it
	packed  bool   // it is a bundle, not a directory
	program string // how the person calls this program
	now     func() time.Time

	mu     sync.Mutex
	hashes map[string]hashedFile
}

// hashedFile is a hash that is good as long as the file looks the same.
type hashedFile struct {
	size    int64
	changed time.Time
	hash    guild.Hash
}

func newViewer(port int, token string, trees func() (fs.FS, func(), error)) *viewer {
	v := &viewer{port: port, token: token, trees: trees, hashes: make(map[string]hashedFile)}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		v.hosts = append(v.hosts, name+":"+strconv.Itoa(port))
		if port == 80 {
			v.hosts = append(v.hosts, name)
		}
	}
	return v
}

// url is the address that a person opens.
func (v *viewer) url() string {
	return "http://" + v.hosts[0] + "/?token=" + v.token
}

// cookie is the name of the cookie with the token: cookies do not tell ports apart, so that it does.
func (v *viewer) cookie() string { return "nutshell-" + strconv.Itoa(v.port) }

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
func (v *viewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (v *viewer) sameOrigin(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
		if !ok || !slices.Contains(v.hosts, host) {
			return false
		}
	}
	return true
}

func (v *viewer) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(v.token)) == 1
}

func (v *viewer) entered(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(v.cookie()), func(c *http.Cookie) bool { return v.isToken(c.Value) })
}

// enter keeps the token in a cookie and leads to the page without it, so that it is not in the history. It is no
// redirect: after one, a browser that came from elsewhere would hold the cookie back.
func (v *viewer) enter(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: v.cookie(), Value: v.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	show(w, "enter", nil)
}

// refuse answers with a sentence.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

//go:embed serve.css
var stylesheet string

//go:embed serve.html
var pages string

// parsed are the pages, which escape what they show.
var parsed = template.Must(template.New("").Funcs(template.FuncMap{"link": link, "size": sizeText}).Parse(pages))

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

// sizeText writes bytes as check does.
func sizeText(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MB"
}

// route finds what is asked for.
func (v *viewer) route(w http.ResponseWriter, r *http.Request) {
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
func (v *viewer) withTree(w http.ResponseWriter, serve func(http.ResponseWriter, *shown)) {
	tree, done, err := v.trees()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "The bundle cannot be read: "+cli.Clean(err.Error()))
		return
	}
	defer done()
	serve(w, newShown(tree))
}

// hash returns the hash of a file, from memory if it has not changed.
func (v *viewer) hash(s *shown, f shownFile) (guild.Hash, error) {
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
