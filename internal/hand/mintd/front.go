package mintd

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/cashu"
	"guild/internal/hand/dial"
	"guild/internal/hand/door"
)

// Bounds of requests.
const (
	maxRequests = 256     // under way at a time
	maxBody     = 4 << 20 // bytes
)

// Codes of errors (error_codes.md of the NUTs). Those of the first two are ours, where the NUTs have none.
const (
	codeRequest       = 10000 // malformed, or about something unknown
	codeInternal      = 50000
	codeProof         = 10001
	codeSpent         = 11001
	codeSigned        = 11003
	codeBalance       = 11005
	codeAmount        = 11006
	codeTwiceIn       = 11007
	codeTwiceOut      = 11008
	codeAmountless    = 11011
	codeUnit          = 11013
	codeManyIn        = 11014
	codeManyOut       = 11015
	codeKeyset        = 12001
	codeInactive      = 12002
	codeUnpaid        = 20001
	codeIssued        = 20002
	codePayment       = 20004
	codePaid          = 20006
	codeExpired       = 20007
	codeQuoteUnsigned = 20008
	codeQuoteKey      = 20009
)

// refusal is an error that is the wallet's. It is the body of the answer.
type refusal struct {
	Detail string `json:"detail"`
	Code   int    `json:"code"`
}

func (r refusal) Error() string { return r.Detail }

func refuse(code int, format string, args ...any) error {
	return refusal{Detail: fmt.Sprintf(format, args...), Code: code}
}

// Handler returns the mint's API (v1). It refuses a request that did not come over loopback, one with the name of another host,
// and one that a web page of another origin sent. The server should limit the time for reading a request.
func (m *Mint) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, do func(id string) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			v, err := do(r.PathValue("id"))
			m.answer(w, v, err)
		})
	}
	get("/v1/info", m.info)
	get("/v1/keys", m.activeKeys)
	get("/v1/keys/{id}", m.keysOf)
	get("/v1/keysets", m.listKeysets)
	get("/v1/mint/quote/bolt11/{id}", m.mintQuote)
	get("/v1/melt/quote/bolt11/{id}", m.meltQuote)
	mux.HandleFunc("POST /v1/swap", post(m, m.swap))
	mux.HandleFunc("POST /v1/checkstate", post(m, m.checkState))
	mux.HandleFunc("POST /v1/restore", post(m, m.restore))
	mux.HandleFunc("POST /v1/mint/quote/bolt11", post(m, m.requestMint))
	mux.HandleFunc("POST /v1/mint/bolt11", post(m, m.mint))
	mux.HandleFunc("POST /v1/melt/quote/bolt11", post(m, m.requestMelt))
	mux.HandleFunc("POST /v1/melt/bolt11", post(m, m.melt))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusNotFound, refusal{Detail: "no such method or path", Code: codeRequest})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := refuses(r); status != 0 {
			http.Error(w, http.StatusText(status), status)
			return
		}
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
			mux.ServeHTTP(w, r)
		default:
			reply(w, http.StatusServiceUnavailable, refusal{Detail: "too many requests", Code: codeInternal})
		}
	})
}

// refuses returns the HTTP status for a request that may come from elsewhere than this machine's programs, or 0.
func refuses(r *http.Request) int {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return http.StatusMisdirectedRequest
	}
	host, _, err := net.SplitHostPort(local.String())
	if err != nil || !dial.IsLoopback(host) {
		return http.StatusMisdirectedRequest
	}
	return door.New(local, nil, nil).Refuses(r)
}

// post returns the handler of requests with a body.
func post[Q any](m *Mint, do func(Q) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			w.Header().Set("Connection", "close")
			reply(w, http.StatusRequestEntityTooLarge, refusal{Detail: fmt.Sprintf("a request of over %d bytes", maxBody), Code: codeRequest})
			return
		}
		var q Q
		if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxBody), &q); err != nil {
			m.answer(w, nil, malformed(err))
			return
		}
		v, err := do(q)
		m.answer(w, v, err)
	}
}

// malformed returns the refusal of a request that does not parse.
func malformed(err error) error {
	if r, ok := errors.AsType[refusal](err); ok {
		return r
	}
	return refuse(codeRequest, "%.300s", err)
}

// answer writes a result, or a refusal. Other errors are logged, and not shown.
func (m *Mint) answer(w http.ResponseWriter, v any, err error) {
	if err == nil {
		reply(w, http.StatusOK, v)
		return
	}
	if r, ok := errors.AsType[refusal](err); ok {
		reply(w, http.StatusBadRequest, r)
		return
	}
	m.options.Log.Error("a request to the mint failed", "err", err)
	reply(w, http.StatusInternalServerError, refusal{Detail: "internal error", Code: codeInternal})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(encode(v))
}

// list is a list in a request, of at most cashu.MaxProofs elements. More are refused before they are read.
type list[T any] []T

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = nil
	if d.PeekKind() == 'n' {
		return d.SkipValue()
	}
	start, err := d.ReadToken()
	if err != nil {
		return err
	}
	if start.Kind() != '[' {
		return errors.New("want a list")
	}
	for d.PeekKind() != ']' {
		if len(*l) == cashu.MaxProofs {
			return refuse(l.tooMany(), "over %d of them in one request", cashu.MaxProofs)
		}
		var v T
		if err := json.UnmarshalDecode(d, &v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	_, err = d.ReadToken()
	return err
}

func (l *list[T]) tooMany() int {
	if _, ok := any(l).(*list[cashu.Output]); ok {
		return codeManyOut
	}
	return codeManyIn
}
