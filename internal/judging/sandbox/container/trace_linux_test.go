package container

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"guild"
)

// message returns a message of gVisor: a header of eight bytes and its content.
func message(kind uint16, parts ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, 8)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = append(b, 0, 0, 0, 0)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// number and text encode fields of a protocol buffers message.
func number(field, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, field<<3), value)
}

func text(field uint64, value []byte) []byte {
	b := binary.AppendUvarint(nil, field<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

func TestTraceBreaches(t *testing.T) {
	python := text(1, text(9, []byte("python3")))
	v4 := []byte{2, 0, 0, 80, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	v6 := append([]byte{10, 0, 0, 53, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8}, make([]byte, 16)...)
	v6[23] = 1
	loopback := []byte{2, 0, 0, 80, 127, 0, 0, 1}
	unreachable := text(2, number(2, uint64(unix.ENETUNREACH)))
	for _, c := range []struct {
		name    string
		message []byte
		want    guild.Breach
		ends    bool
	}{
		{"a connection out", message(messageConnect, python, text(6, v4)), guild.Breach{Syscall: "connect", Detail: `192.0.2.1:80 by "python3"`}, false},
		{"one of version 6", message(messageConnect, python, text(6, v6)), guild.Breach{Syscall: "connect", Detail: `[2001:db8::1]:53 by "python3"`}, false},
		{"one to itself", message(messageConnect, python, text(6, loopback)), guild.Breach{}, false},
		{"a socket of its own", message(messageConnect, python, text(6, []byte("\x01\x00/tmp/s"))), guild.Breach{}, false},
		{"a datagram out", message(messageRawSyscall, python, unreachable, number(4, unix.SYS_SENDTO)), guild.Breach{Syscall: "connect", Detail: `sendto by "python3"`}, false},
		{"a datagram to itself", message(messageRawSyscall, python, number(4, unix.SYS_SENDTO)), guild.Breach{}, false},
		{"a mount", message(messageRawSyscall, python, number(4, unix.SYS_MOUNT)), guild.Breach{Syscall: "mount", Detail: `by "python3"`}, true},
		{"a packet socket", message(messageRawSyscall, python, number(4, unix.SYS_SOCKET), number(5, unix.AF_PACKET)), guild.Breach{Syscall: "socket", Detail: `family 17 by "python3"`}, true},
		{"an ordinary socket", message(messageRawSyscall, python, number(4, unix.SYS_SOCKET), number(5, unix.AF_INET)), guild.Breach{}, false},
		{"an end by the filter", message(messageExitNotifyParent, python, number(2, uint64(unix.SIGSYS))), guild.Breach{Syscall: "seccomp", Detail: `"python3" was killed at a forbidden system call`}, true},
		{"an ordinary end", message(messageExitNotifyParent, python, number(2, 0)), guild.Breach{}, false},
		{"less than a header", []byte{8, 0, 10}, guild.Breach{}, false},
		{"a header longer than the message", []byte{255, 255, 10, 0, 0, 0, 0, 0}, guild.Breach{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &tracer{breach: make(chan struct{})}
			tr.take(c.message)
			var got guild.Breach
			if found := tr.breaches(); len(found) > 0 {
				got = found[0]
			}
			ends := false
			select {
			case <-tr.breach:
				ends = true
			default:
			}
			if got != c.want || ends != c.ends {
				t.Errorf("%+v, ends %v; want %+v, %v", got, ends, c.want, c.ends)
			}
		})
	}
}

func TestSharedNetwork(t *testing.T) {
	tr := &tracer{network: true, breach: make(chan struct{})}
	tr.take(message(messageConnect, text(6, []byte{2, 0, 0, 80, 192, 0, 2, 1})))
	if found := tr.breaches(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(message(messageConnect, text(6, []byte{2, 0, 0, 80, 192, 0, 2, 1})))
	f.Add(message(messageRawSyscall, number(4, unix.SYS_SENDTO), text(2, number(2, 101))))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr := &tracer{breach: make(chan struct{})}
		tr.take(b)
		if len(tr.breaches()) > 1 {
			t.Error("one message, several breaches")
		}
	})
}

func TestQuote(t *testing.T) {
	if got, want := quote(`it's $HOME`), `'it'\''s $HOME'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
