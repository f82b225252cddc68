package report

// Scale is what many upstreams cost.
type Scale struct {
	About Machine
	Took  string
	Rows  []ScaleRow
}

// ReloadFailed stands for the time of reloads of which one failed.
const ReloadFailed = -1

// ScaleRow is one peer with a number of upstreams.
type ScaleRow struct {
	Peer      string
	Upstreams int
	// HeapPerUpstream is the live heap that each upstream adds, in bytes,
	// against the same peer with the fewest upstreams, for which it is 0.
	HeapPerUpstream float64
	// RSS is the resident memory, in MB.
	RSS float64
	// CPU is the processor time while checking, ExchangeCPU what a plain
	// client needs for the same exchanges, both in percent of one core.
	CPU, ExchangeCPU float64
	// ProbesPer100ms is how many checks came in each window of 100 ms, after
	// the first round. MaxToMean is the most in any by the mean.
	ProbesPer100ms []int
	MaxToMean      float64
	// PickNs is the time of one pick, SwapUs that of making a new rotation
	// when half of the upstreams change, ReloadMs that of a reload, or
	// ReloadFailed.
	PickNs, SwapUs, ReloadMs float64
}

// Soak is what clients saw, and what became of the memory, while backends
// failed at random for a long time.
type Soak struct {
	About                                                         Machine
	Took                                                          string
	Gets, GetErrors, Posts, PostErrors, Faults, Reloads, Redialed int
	// Kinds are the errors by method, text and fault.
	Kinds  map[string]int
	Points []SoakPoint
}

// SoakPoint is the state of the load balancer after so many minutes.
type SoakPoint struct {
	Minute        float64
	Goroutines    int
	HeapMB, RSSMB float64
}
