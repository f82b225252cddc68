package report

// Scale is what many upstreams cost.
type Scale struct {
	About Machine
	Took  string
	Rows  []ScaleRow
}

// ScaleRow is a peer with a number of upstreams.
type ScaleRow struct {
	Peer      string
	Upstreams int
	// HeapPerUpstream is the bytes of live heap that each takes, compared with
	// the same peer with the fewest; zero if unknown.
	HeapPerUpstream float64
	// RSS is the memory of the process in MB.
	RSS float64
	// CPU is the processor time of checking in percent of a core, ExchangeCPU
	// that of a plain client for the same exchanges.
	CPU, ExchangeCPU float64
	// ProbesPer100ms is how many checks began in each tenth of a second,
	// MaxToMean the most of them as a multiple of the mean.
	ProbesPer100ms []int
	MaxToMean      float64
	// PickNs is the time of a pick in nanoseconds, SwapUs that of changing the
	// rotation in microseconds, ReloadMs that of a reload in milliseconds.
	PickNs, SwapUs, ReloadMs float64
}

// Soak is what a long time with faults and reloads did.
type Soak struct {
	About                                                         Machine
	Took                                                          string
	Gets, GetErrors, Posts, PostErrors, Faults, Reloads, Redialed int
	// Kinds are the errors by their texts.
	Kinds  map[string]int
	Points []SoakPoint
}

// SoakPoint is the state of the process at a moment.
type SoakPoint struct {
	Minute        float64
	Goroutines    int
	HeapMB, RSSMB float64
}
