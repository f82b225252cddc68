package wire

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// frame makes an Ethernet frame with IPv4 and TCP, and padding.
func frame(from, to uint16, sequence uint32, flags byte, payload string, padding int) []byte {
	f := make([]byte, 14+20+24)
	ip := f[14:]
	ip[0] = 0x45
	ip[9] = 6
	binary.BigEndian.PutUint16(ip[2:], uint16(20+24+len(payload)))
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp, from)
	binary.BigEndian.PutUint16(tcp[2:], to)
	binary.BigEndian.PutUint32(tcp[4:], sequence)
	tcp[12] = 6 << 4
	tcp[13] = flags
	return append(append(f, payload...), make([]byte, padding)...)
}

func TestParse(t *testing.T) {
	const syn, ack = 2, 16
	s, ok := parse(frame(40000, 9000, 7, syn, "", 6))
	if !ok || s.from != 40000 || s.to != 9000 || s.sequence != 7 || !s.opens || len(s.payload) != 0 {
		t.Errorf("a SYN with padding: %+v, %v", s, ok)
	}
	s, ok = parse(frame(40000, 9000, 8, ack, "GET / HTTP/1.1\r\n", 0))
	if !ok || s.opens || string(s.payload) != "GET / HTTP/1.1\r\n" {
		t.Errorf("a request: %+v, %v", s, ok)
	}
	if s, _ := parse(frame(9000, 40000, 8, syn|ack, "", 0)); s.opens {
		t.Error("an answer to a SYN opens a connection")
	}
	udp := frame(1, 2, 3, syn, "", 0)
	udp[14+9] = 17
	whole := frame(40000, 9000, 8, ack, "GET ", 0)
	for name, f := range map[string][]byte{"empty": nil, "UDP": udp, "cut off": whole[:40], "without TCP options": whole[:55]} {
		if _, ok := parse(f); ok {
			t.Errorf("%s: was taken for TCP", name)
		}
	}
}

func TestNotes(t *testing.T) {
	n := newNotes()
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	get := []byte("GET / HTTP/1.1\r\n\r\n")

	n.add(segment{from: 1, sequence: 10, opens: true}, at(1))
	n.add(segment{from: 1, sequence: 10, opens: true}, at(2)) // again
	n.add(segment{from: 1, sequence: 11, payload: get}, at(3))
	n.add(segment{from: 1, sequence: 11, payload: get}, at(4)) // again
	n.add(segment{from: 1, sequence: 29}, at(5))               // an acknowledgement
	n.add(segment{from: 1, sequence: 29, payload: []byte("POST / HTTP/1.1\r\n\r\n")}, at(6))
	n.add(segment{from: 2, sequence: 500, payload: get}, at(7)) // of before
	n.add(segment{from: 2, sequence: 518, payload: []byte("some form data")}, at(8))
	n.add(segment{from: 1, sequence: 99, opens: true}, at(9)) // another connection of the same port
	n.add(segment{from: 3, sequence: 10, opens: true}, at(10))

	if want := []time.Duration{at(1), at(6), at(7), at(9), at(10)}; !slices.Equal(n.events, want) {
		t.Errorf("got %v, want %v", n.events, want)
	}
}
