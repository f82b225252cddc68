// Package wire sees what is sent to an address, whether or not somebody is
// there to take it: every new connection and every request, to the moment.
package wire

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Watcher notes the requests that are sent to one address over loopback.
type Watcher struct {
	socket int
	begin  time.Time
	mutex  sync.Mutex
	notes  map[uint16]*notes
	done   sync.WaitGroup
}

// Watch begins to note what is sent to address. Times count from begin.
func Watch(address netip.Addr, begin time.Time) (*Watcher, error) {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	w := &Watcher{socket: socket, begin: begin, notes: make(map[uint16]*notes)}
	if err := w.open(address); err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	w.done.Go(w.read)
	return w, nil
}

// shortest is the length of packets that matter: those that open connections
// have 40 bytes of TCP, mere acknowledgements 20 or 32.
const shortest = 20 + 40

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// open narrows what the socket receives to the packets of interest.
func (w *Watcher) open(address netip.Addr) error {
	ip := address.As4()
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IP, SkipFalse: 7},
		bpf.LoadAbsolute{Off: 30, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(ip[:]), SkipFalse: 5},
		bpf.LoadAbsolute{Off: 16, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: shortest, SkipFalse: 3},
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 512},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, len(filter))
	for i, f := range filter {
		program[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	err = unix.SetsockoptSockFprog(w.socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		return err
	}
	wake := unix.NsecToTimeval(int64(50 * time.Millisecond)) // to see that it is closed
	if err := unix.SetsockoptTimeval(w.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wake); err != nil {
		return err
	}
	return unix.Bind(w.socket, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP)})
}

// read notes packets until the watcher is closed.
func (w *Watcher) read() {
	frame := make([]byte, 512)
	for {
		n, _, err := unix.Recvfrom(w.socket, frame, 0)
		now := time.Since(w.begin)
		w.mutex.Lock()
		if w.notes == nil {
			w.mutex.Unlock()
			return
		}
		if segment, ok := parse(frame[:max(n, 0)]); ok && err == nil {
			of := w.notes[segment.to]
			if of == nil {
				of = newNotes()
				w.notes[segment.to] = of
			}
			of.add(segment, now)
		}
		w.mutex.Unlock()
	}
}

// Close ends it, and returns when requests were sent to each port.
func (w *Watcher) Close() map[uint16][]time.Duration {
	w.mutex.Lock()
	all := make(map[uint16][]time.Duration)
	for port, of := range w.notes {
		all[port] = of.events
	}
	w.notes = nil
	w.mutex.Unlock()
	w.done.Wait()
	_ = unix.Close(w.socket)
	return all
}
