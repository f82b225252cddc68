package report

// Speed is how fast peers are, and what it costs.
type Speed struct {
	About  Machine
	Took   string
	Repeat int
	// Pinned says that peers had a core to themselves.
	Pinned bool
	Peers  []Peer
	Pairs  []Pair
	Slices []Slice
	Inside []Benchmark
}

// Pair is this load balancer and Caddy's own proxy with equal options.
type Pair struct{ Ours, Stock string }

// Slice is a short time of load on one peer.
type Slice struct {
	Cell
	Peer string
	// Round is the same for slices that followed one another.
	Round            int
	Requests, Errors int
	// Rate is requests a second, CPU the processor time of the peer for one of
	// them in microseconds, Busy how much of a core it used, in percent. P50
	// and P99 are times to the end of the response, in milliseconds.
	Rate, CPU, Busy, P50, P99 float64
}

// Cell is what the load is.
type Cell struct {
	Protocol    string
	Connections int
	// Size is that of response bodies, in bytes.
	Size int
	// Up is how many of the backends were, and Down how many were not.
	Up, Down int
}
