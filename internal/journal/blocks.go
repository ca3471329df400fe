package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// The server's block files, as of nats-server 2.2 to 2.15: one record after the other, each with a checksum.
//
//	length    4 bytes, little-endian, of the whole record; the highest bit says that there is a header
//	sequence  8 bytes; one of the two highest bits marks an erased message
//	time      8 bytes, Unix ns
//	subject   its length in 2 bytes, and the subject
//	header    if there is one: its length in 4 bytes, and the header
//	message
//	checksum  8 bytes, HighwayHash-64 of all but the lengths, keyed by stream and block
//
// The server truncates a block at the first record that it cannot read, and goes on without a word. So the blocks are read
// here before the server starts.
const (
	recordHead   = 22
	recordSum    = 8
	recordLimit  = 1 << 20  // bytes; no entry comes near
	blockLimit   = 64 << 20 // bytes; a block is 8 MiB and a record
	headerBit    = 1 << 31
	erasedBits   = 1<<63 | 1<<62
	blockPattern = ".blk"
)

// record is a message as found in a block.
type record struct {
	seq     uint64
	erased  bool // the record only says that the message is deleted; entries never are, except archived ones
	subject string
	data    []byte
}

// block is a block file.
type block struct {
	stream string // the stream's name
	path   string
	index  int
}

// blocks lists the block files in the directory of a stream, the oldest first.
func blocks(stream string) ([]block, error) {
	dir := filepath.Join(stream, "msgs")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []block
	for _, e := range entries {
		digits, isBlock := strings.CutSuffix(e.Name(), blockPattern)
		if index, err := strconv.Atoi(digits); isBlock && err == nil {
			all = append(all, block{filepath.Base(stream), filepath.Join(dir, e.Name()), index})
		}
	}
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.index, b.index) })
	return all, nil
}

// checksum returns the hash that makes the checksums of the block's records.
func (b block) checksum() (hash.Hash64, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", b.stream, b.index))
	return highwayhash.New64(key[:])
}

// records yields the records of a block, in their order, with ok set. Bytes that are not a whole record are yielded as data
// with ok unset; reading goes on at the next whole record, which is found by trying every byte.
func (b block) records(buf []byte) (iter.Seq2[record, bool], error) {
	sum, err := b.checksum()
	if err != nil {
		return nil, err
	}
	return func(yield func(record, bool) bool) {
		begin := 0 // of the bytes that are not a record
		for at := 0; at < len(buf); {
			rec, size := parseRecord(buf[at:], sum)
			if size == 0 {
				at++
				continue
			}
			if begin < at && !yield(record{data: buf[begin:at]}, false) {
				return
			}
			at += size
			begin = at
			if rec.seq != 0 && !yield(rec, true) {
				return
			}
		}
		if begin < len(buf) {
			yield(record{data: buf[begin:]}, false)
		}
	}, nil
}

// parseRecord reads the record at the start of b. Its size is 0 if there is none.
func parseRecord(b []byte, sum hash.Hash64) (rec record, size int) {
	if len(b) < recordHead+recordSum {
		return record{}, 0
	}
	length := binary.LittleEndian.Uint32(b)
	size = int(length &^ headerBit)
	if size < recordHead+recordSum || size > len(b) || size > recordLimit {
		return record{}, 0
	}
	subject, rest := int(binary.LittleEndian.Uint16(b[20:])), b[recordHead:size-recordSum]
	if subject > len(rest) {
		return record{}, 0
	}
	seq := binary.LittleEndian.Uint64(b[4:])
	rec = record{seq: seq &^ erasedBits, erased: seq&erasedBits != 0, subject: string(rest[:subject])}
	body := rest[subject:]
	rec.data = body
	if length&headerBit != 0 {
		if len(body) < 4 {
			return record{}, 0
		}
		header := binary.LittleEndian.Uint32(body)
		body = body[4:]
		if uint64(header) > uint64(len(body)) || !bytes.HasSuffix(body[:header], []byte("\r\n\r\n")) { // the checksum does not cover its length
			return record{}, 0
		}
		rec.data = body[header:]
	}
	sum.Reset()
	for _, part := range [][]byte{b[4:20], rest[:subject], body} {
		sum.Write(part)
	}
	if !bytes.Equal(sum.Sum(nil), b[size-recordSum:size]) {
		return record{}, 0
	}
	return rec, size
}
