package report

import "math"

// figure is one kind of figure of a fault.
type figure struct {
	name, means string
	of          func(Outcome) float64
	better      order
	tolerance   float64
}

// enough is what times have to differ by, as a part of the better one.
const enough = 0.05

var faultFigures = []figure{
	{
		name:  "GET errors",
		means: "GET requests that a client did not get answered with status 200 and the whole body in time, of about 250 a second.",
		of:    func(o Outcome) float64 { return float64(o.Get.Errors) },
	},
	{
		name:  "POST errors",
		means: "The same for POST requests, of about 50 a second. No peer sends one again that a backend may have begun.",
		of:    func(o Outcome) float64 { return float64(o.Post.Errors) },
	},
	{
		name:      "Slowest GET",
		means:     "In milliseconds, from the moment that it was due, among those due since the fault; failed ones count too.",
		of:        func(o Outcome) float64 { return o.Get.Max },
		tolerance: enough,
	},
	{
		name:      "GET, 99th percentile",
		means:     "In milliseconds, of the same requests.",
		of:        func(o Outcome) float64 { return o.Get.P99 },
		tolerance: enough,
	},
	{
		name:  "Requests to the sick",
		means: "How many requests a peer sent to backends that were not well at that moment, seen on the wire; connections that could not be opened count.",
		of:    func(o Outcome) float64 { return float64(o.BadRequests) },
	},
	{
		name:      "Detection",
		means:     "In milliseconds, from the first fault to the last request before a quarter of a second in which that backend was sent none.",
		of:        func(o Outcome) float64 { return never(o.Detect, o) },
		tolerance: enough,
	},
	{
		name:      "Return to a full share",
		means:     "In milliseconds, from the moment that all backends were well again to the first half second in which each gave at least two thirds of an equal share of the answers, those to earlier requests left out; \"never\" is more than 20 s.",
		of:        func(o Outcome) float64 { return never(o.FullShare, o) },
		tolerance: enough,
	},
	{
		name:   "Probes of the dead",
		means:  "How many health checks were sent to a backend that could not answer them. NGINX has none and sends requests of clients instead; there is nothing better or worse about it.",
		of:     func(o Outcome) float64 { return float64(o.Probes) },
		better: neitherIsBetter,
	},
}

// never makes times that never came infinite, and NaN if nothing could come.
func never(v float64, o Outcome) float64 {
	switch {
	case v >= 0:
		return v
	case o.Detect < 0: // nothing went wrong
		return math.NaN()
	}
	return math.Inf(1)
}
