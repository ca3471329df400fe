package bitcoin

import (
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/btcutil/base58"
	"github.com/btcsuite/btcd/btcutil/bech32"
)

// networks are the names of networks by the prefix of their addresses, as bitcoind and btcd call them.
var networks = map[string]string{"bc": "main", "tb": "test", "bcrt": "regtest", "sb": "simnet"}

// Script returns the script that an address of segregated witness stands for (BIP 173 and 350), and its network: main, test, regtest or
// simnet. Older addresses are refused: nobody needs new ones.
func Script(address string) (script []byte, network string, err error) {
	const shortest, longest = 2, 40 // bytes of a program
	prefix, data, version, err := bech32.DecodeGeneric(address)
	if err != nil {
		return nil, "", fmt.Errorf("%.100q is no address of segregated witness: %w", address, err)
	}
	network, known := networks[prefix]
	if !known || len(data) == 0 || data[0] > 16 {
		return nil, "", fmt.Errorf("%.100q is the address of no known network or version", address)
	}
	program, err := bech32.ConvertBits(data[1:], 5, 8, false)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%.100q: %w", address, err)
	case len(program) < shortest || len(program) > longest, data[0] == 0 && len(program) != 20 && len(program) != 32:
		return nil, "", fmt.Errorf("%.100q has a program of %d bytes", address, len(program))
	case (data[0] == 0) != (version == bech32.Version0):
		return nil, "", errors.New("the address has the checksum of another version")
	}
	opcode := data[0]
	if opcode > 0 {
		opcode += 0x50
	}
	return append([]byte{opcode, byte(len(program))}, program...), network, nil
}

// ChangeScript returns the script of any address that a wallet makes for its change: also of an older kind, on whatever network.
func ChangeScript(address string) ([]byte, error) {
	script, _, err := Script(address)
	if err == nil {
		return script, nil
	}
	hash, version, failed := base58.CheckDecode(address)
	switch {
	case failed != nil || len(hash) != 20:
		return nil, err
	case version == 0x00, version == 0x6f, version == 0x3f: // to a key
		return append(append([]byte{0x76, 0xa9, 20}, hash...), 0x88, 0xac), nil
	case version == 0x05, version == 0xc4, version == 0x7b: // to a script
		return append(append([]byte{0xa9, 20}, hash...), 0x87), nil
	}
	return nil, fmt.Errorf("%.100q is an address of an unknown kind", address)
}
