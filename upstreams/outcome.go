package upstreams

import "strconv"

// Outcome is how an attempt ended, as far as its response header goes. One
// whose idle connection the upstream closed just then has none.
type Outcome int

const (
	// Success is a response with a status below 500.
	Success Outcome = iota
	// ErrorStatus is a response with a status from 500.
	ErrorStatus
	// Failed is no response.
	Failed
	// Canceled is no response because the client went away, or broke off its
	// request body.
	Canceled
	// Rescued is an attempt that was cut loose and retried elsewhere.
	Rescued

	numOutcomes = iota
)

// String returns the name of o as metrics spell it.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case ErrorStatus:
		return "error_status"
	case Failed:
		return "failed"
	case Canceled:
		return "canceled"
	case Rescued:
		return "rescued"
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}
