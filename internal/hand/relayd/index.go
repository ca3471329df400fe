package relayd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip40"
	"go.etcd.io/bbolt"
)

// The buckets of the file. A key of an index ends in a position (below), so a cursor that moves forward finds the newest
// event first and, of events in the same second, the lowest id: the order of results in NIP-01.
var (
	bucketEvents  = []byte("events")  // id → the event's JSON
	bucketTime    = []byte("time")    // position
	bucketKind    = []byte("kind")    // kind, position
	bucketAuthor  = []byte("author")  // pubkey, position
	bucketMaker   = []byte("maker")   // pubkey, kind, position
	bucketTag     = []byte("tag")     // letter, digest of the value, position
	bucketAddress = []byte("address") // digest of the address → id of the stored version
	bucketExpiry  = []byte("expiry")  // expiration, id
	bucketMeta    = []byte("meta")

	keySize = []byte("size")

	buckets = [][]byte{
		bucketEvents, bucketTime, bucketKind, bucketAuthor, bucketMaker, bucketTag, bucketAddress, bucketExpiry, bucketMeta,
	}
)

// position orders events in every index: the inverted time, then the id.
type position [8 + 32]byte

func positionOf(at nostr.Timestamp, id nostr.ID) position {
	var p position
	binary.BigEndian.PutUint64(p[:8], ^ordered(at))
	copy(p[8:], id[:])
	return p
}

// ordered maps timestamps to unsigned numbers in the same order.
func ordered(at nostr.Timestamp) uint64 { return uint64(at) ^ 1<<63 }

// address names all versions of a replaceable or addressable event, as the value of an a tag does.
type address struct {
	kind   nostr.Kind
	author nostr.PubKey
	d      string
}

func addressOf(e nostr.Event) (address, bool) {
	switch {
	case e.Kind.IsReplaceable():
		return address{e.Kind, e.PubKey, ""}, true
	case e.Kind.IsAddressable():
		return address{e.Kind, e.PubKey, e.Tags.GetD()}, true
	default:
		return address{}, false
	}
}

func parseAddress(s string) (address, bool) {
	kind, rest, _ := strings.Cut(s, ":")
	author, d, found := strings.Cut(rest, ":")
	number, err := strconv.ParseUint(kind, 10, 16)
	if !found || err != nil {
		return address{}, false
	}
	pubkey, err := nostr.PubKeyFromHex(author)
	return address{nostr.Kind(number), pubkey, d}, err == nil
}

func (a address) String() string {
	return strconv.Itoa(int(a.kind)) + ":" + a.author.Hex() + ":" + a.d
}

func (a address) key() []byte {
	sum := sha256.Sum256([]byte(a.String()))
	return sum[:]
}

// keys yields the index keys of an event, each after its bucket. They depend on the event alone, so removeEvent finds all.
func keys(e nostr.Event) iter.Seq2[[]byte, []byte] {
	p := positionOf(e.CreatedAt, e.ID)
	return func(yield func(bucket, key []byte) bool) {
		ok := yield(bucketTime, p[:]) &&
			yield(bucketKind, append(kindPrefix(e.Kind), p[:]...)) &&
			yield(bucketAuthor, append(bytes.Clone(e.PubKey[:]), p[:]...)) &&
			yield(bucketMaker, append(makerPrefix(e.PubKey, e.Kind), p[:]...))
		for _, tag := range e.Tags {
			if ok && len(tag) >= 2 && len(tag[0]) == 1 {
				ok = yield(bucketTag, append(tagPrefix(tag[0], tag[1]), p[:]...))
			}
		}
		if at := nip40.GetExpiration(e.Tags); ok && at >= 0 {
			yield(bucketExpiry, expiryKey(at, e.ID))
		}
	}
}

func kindPrefix(k nostr.Kind) []byte { return binary.BigEndian.AppendUint16(nil, uint16(k)) }

func makerPrefix(author nostr.PubKey, k nostr.Kind) []byte {
	return binary.BigEndian.AppendUint16(bytes.Clone(author[:]), uint16(k))
}

// tagPrefix shortens a value of any length. After a collision scan finds an event that the filter then refuses.
func tagPrefix(letter, value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append([]byte(letter), sum[:16]...)
}

func expiryKey(at nostr.Timestamp, id nostr.ID) []byte {
	return append(binary.BigEndian.AppendUint64(nil, ordered(at)), id[:]...)
}

func addEvent(tx *bbolt.Tx, e nostr.Event, encoded []byte) error {
	for bucket, key := range keys(e) {
		if err := tx.Bucket(bucket).Put(key, nil); err != nil {
			return err
		}
	}
	if a, ok := addressOf(e); ok {
		if err := tx.Bucket(bucketAddress).Put(a.key(), e.ID[:]); err != nil {
			return err
		}
	}
	if err := addSize(tx, int64(len(encoded))); err != nil {
		return err
	}
	return tx.Bucket(bucketEvents).Put(e.ID[:], encoded)
}

func removeEvent(tx *bbolt.Tx, e nostr.Event) error {
	for bucket, key := range keys(e) {
		if err := tx.Bucket(bucket).Delete(key); err != nil {
			return err
		}
	}
	if a, ok := addressOf(e); ok {
		if err := tx.Bucket(bucketAddress).Delete(a.key()); err != nil {
			return err
		}
	}
	events := tx.Bucket(bucketEvents)
	if err := addSize(tx, -int64(len(events.Get(e.ID[:])))); err != nil {
		return err
	}
	return events.Delete(e.ID[:])
}

func eventByID(tx *bbolt.Tx, id nostr.ID) (nostr.Event, bool) {
	encoded := tx.Bucket(bucketEvents).Get(id[:])
	if encoded == nil {
		return nostr.Event{}, false
	}
	return decode(encoded)
}

func eventAt(tx *bbolt.Tx, a address) (nostr.Event, bool) {
	id := tx.Bucket(bucketAddress).Get(a.key())
	if len(id) != len(nostr.ID{}) {
		return nostr.Event{}, false
	}
	return eventByID(tx, nostr.ID(id))
}

// deletionsOf yields the kind 5 events of an author that name a target in the given tag.
func deletionsOf(tx *bbolt.Tx, author nostr.PubKey, letter, target string) iter.Seq[nostr.Event] {
	filter := nostr.Filter{
		Kinds: []nostr.Kind{nostr.KindDeletion}, Authors: []nostr.PubKey{author}, Tags: nostr.TagMap{letter: {target}},
	}
	return func(yield func(nostr.Event) bool) {
		for found := range scan(context.Background(), tx, filter, position{}) {
			if !yield(found.event) {
				return
			}
		}
	}
}

// expiredBy yields the ids of expired events. It collects them first, because the caller removes the events.
func expiredBy(tx *bbolt.Tx, now nostr.Timestamp) iter.Seq[nostr.ID] {
	var ids []nostr.ID
	end := binary.BigEndian.AppendUint64(nil, ordered(now)+1)
	cursor := tx.Bucket(bucketExpiry).Cursor()
	for key, _ := cursor.First(); key != nil && bytes.Compare(key, end) < 0; key, _ = cursor.Next() {
		ids = append(ids, nostr.ID(key[8:]))
	}
	return func(yield func(nostr.ID) bool) {
		for _, id := range ids {
			if !yield(id) {
				return
			}
		}
	}
}
