package work

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"guild/internal/hand/model"
	"guild/nutshell/vault"
)

// ownersKey is what the attacks are after.
const ownersKey = "sk-ant-owner-7Qx42LmZt4Rb8Vn1"

// api is an API that repeats the key of a request if it is asked to.
func api(t *testing.T) *model.API {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("repeat")) {
			fmt.Fprintf(w, `{"you":%q}`, r.Header.Get("X-Api-Key"))
			return
		}
		io.WriteString(w, `{"content":[],"usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(s.Close)
	return &model.API{URL: s.URL + "/v1", Key: vault.NewSecret([]byte(ownersKey)), Header: "X-Api-Key"}
}
