package report

import "fmt"

// String is the cell in words, as in "HTTP/1.1, 64 connections, 1 kB, 4 of 4
// up".
func (c Cell) String() string {
	return fmt.Sprintf("%s, %d connections, %s, %d of %d up", c.Protocol, c.Connections, sizeName(c.Size), c.Up, c.Up+c.Down)
}

// sizeName is a number of bytes in words.
func sizeName(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%g MB", float64(n)/1_000_000)
	}
	return fmt.Sprintf("%g kB", float64(n)/1000)
}
