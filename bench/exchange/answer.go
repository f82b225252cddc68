//go:build linux

package exchange

import (
	"bytes"
	"errors"
	"io"
)

// longest is how long requests may be.
const longest = 4 << 10

// Answer answers the requests of a connection, which have no bodies, with whole
// responses, as respond has them for a request without the empty line at its
// end. It returns when the other side closes the connection.
func Answer(conn io.ReadWriter, respond func(request []byte) []byte) error {
	buffer := make([]byte, longest)
	unread := 0
	for unread < len(buffer) {
		n, err := conn.Read(buffer[unread:])
		if err != nil {
			return err
		}
		unread += n
		for {
			request, rest, whole := bytes.Cut(buffer[:unread], []byte("\r\n\r\n"))
			if !whole {
				break
			}
			response := respond(request)
			unread = copy(buffer, rest)
			if _, err := conn.Write(response); err != nil {
				return err
			}
		}
	}
	return errors.New("a request that is too long")
}
