package nip90

import "fiatjaf.com/nostr"

// tagBitcoin names the URI of a payment on the Bitcoin chain (BIP 21) in a quote.
const tagBitcoin = "bitcoin"

// Bitcoin returns the tag of a quote that asks for a payment on the Bitcoin chain.
func Bitcoin(uri string) nostr.Tag { return nostr.Tag{tagBitcoin, uri} }

// BitcoinOf returns the URI by which the unknown tags of a quote ask for a payment on the Bitcoin chain, or "".
func BitcoinOf(extra nostr.Tags) string {
	if tag := extra.Find(tagBitcoin); len(tag) >= 2 {
		return tag[1]
	}
	return ""
}
