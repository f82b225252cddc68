package wire

import (
	"bytes"
	"encoding/binary"
	"time"
)

// segment is what matters of a TCP segment.
type segment struct {
	from, to uint16
	sequence uint32
	opens    bool // a connection
	payload  []byte
}

// parse reads an Ethernet frame with IPv4 and TCP.
func parse(frame []byte) (segment, bool) {
	const ethernet = 14
	if len(frame) < ethernet+20 || frame[ethernet+9] != 6 {
		return segment{}, false
	}
	packet := frame[ethernet:]
	size := int(binary.BigEndian.Uint16(packet[2:]))
	if 20 <= size && size < len(packet) {
		packet = packet[:size] // without padding
	}
	header := int(packet[0]&15) * 4
	if len(packet) < header+20 {
		return segment{}, false
	}
	tcp := packet[header:]
	data := int(tcp[12]>>4) * 4
	if len(tcp) < data {
		return segment{}, false
	}
	const syn, ack = 2, 16
	return segment{
		from:     binary.BigEndian.Uint16(tcp),
		to:       binary.BigEndian.Uint16(tcp[2:]),
		sequence: binary.BigEndian.Uint32(tcp[4:]),
		opens:    tcp[13]&(syn|ack) == syn,
		payload:  tcp[data:],
	}, true
}

// notes are the requests that were sent to one port. A connection counts when
// it is opened, for the request that it is opened for; every request after the
// first counts when it begins. What is sent again counts once.
type notes struct {
	events []time.Duration
	opened map[uint16]*connection
}

// connection is one port at the other side.
type connection struct {
	sequence uint32
	opening  bool // and no request has been seen yet
	seen     map[uint32]bool
}

func newNotes() *notes { return &notes{opened: make(map[uint16]*connection)} }

func (n *notes) add(s segment, now time.Duration) {
	c := n.opened[s.from]
	if s.opens {
		if c != nil && c.sequence == s.sequence {
			return
		}
		n.opened[s.from] = &connection{sequence: s.sequence, opening: true, seen: make(map[uint32]bool)}
		n.events = append(n.events, now)
		return
	}
	if !beginsRequest(s.payload) {
		return
	}
	if c == nil {
		c = &connection{seen: make(map[uint32]bool)}
		n.opened[s.from] = c
	}
	if c.seen[s.sequence] {
		return
	}
	c.seen[s.sequence] = true
	if c.opening {
		c.opening = false
		return
	}
	n.events = append(n.events, now)
}

// beginsRequest reports whether a payload is the beginning of an HTTP request.
func beginsRequest(payload []byte) bool {
	return bytes.HasPrefix(payload, []byte("GET ")) || bytes.HasPrefix(payload, []byte("POST "))
}
