// Command gonuts runs the Cashu mint of github.com/elnosh/gonuts on loopback, with Lightning that is not real: its invoices
// count as paid at once, and of what it is to pay, it says that it has paid. The tests of our client use it as a foreign mint.
//
//	gonuts DIRECTORY
//
// The mint keeps its database in DIRECTORY and takes 100 thousandths of a sat for each input. It prints its URL when it listens.
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/elnosh/gonuts/mint"
	"github.com/elnosh/gonuts/mint/lightning"
	"github.com/lightningnetwork/lnd/lnwire"
	"github.com/lightningnetwork/lnd/zpay32"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gonuts DIRECTORY")
	}
	server, err := mint.SetupMintServer(mint.Config{
		MintPath: os.Args[1], InputFeePpk: 100, LogLevel: mint.Disable, LightningClient: &payable{},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(serverOf(server).Serve(listener))
}

// serverOf returns the HTTP server of a mint, which would itself listen on all addresses.
func serverOf(m *mint.MintServer) *http.Server {
	return (*http.Server)(reflect.ValueOf(m).Elem().FieldByName("httpServer").UnsafePointer())
}

// payable is the fake backend with invoices as nodes make them. Those of the fake backend have no payment secret, so nobody
// could pay them.
type payable struct{ lightning.FakeBackend }

// CreateInvoice returns an invoice for an amount in sat, which counts as paid.
func (p *payable) CreateInvoice(amount uint64) (lightning.Invoice, error) {
	var preimage, secret [32]byte
	rand.Read(preimage[:])
	rand.Read(secret[:])
	hash := sha256.Sum256(preimage[:])
	invoice, err := zpay32.NewInvoice(&chaincfg.RegressionNetParams, hash, time.Now(),
		zpay32.Amount(lnwire.MilliSatoshi(amount*1000)), zpay32.Description("ecash"), zpay32.PaymentAddr(secret),
		zpay32.Features(lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired), lnwire.Features)))
	if err != nil {
		return lightning.Invoice{}, err
	}
	key, err := btcec.NewPrivateKey()
	if err != nil {
		return lightning.Invoice{}, err
	}
	request, err := invoice.Encode(zpay32.MessageSigner{SignCompact: func(message []byte) ([]byte, error) {
		return ecdsa.SignCompact(key, message, true)
	}})
	if err != nil {
		return lightning.Invoice{}, err
	}
	made := lightning.FakeBackendInvoice{
		PaymentRequest: request, PaymentHash: hex.EncodeToString(hash[:]), Preimage: hex.EncodeToString(preimage[:]),
		Status: lightning.Succeeded, Amount: amount,
	}
	p.Invoices = append(p.Invoices, made)
	return made.ToInvoice(), nil
}

// SubscribeInvoice fails. The mint would mark a quote as paid even if it was issued meanwhile.
func (*payable) SubscribeInvoice(string) (lightning.InvoiceSubscriptionClient, error) {
	return nil, errors.New("there are no subscriptions")
}
