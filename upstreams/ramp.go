package upstreams

import (
	"slices"
	"time"
)

// rampSteps is in how many steps a slow start grows.
const rampSteps = 10

// rampStep returns the step, from 1 to rampSteps, of an upstream that came
// back that long ago, and how long it lasts, 0 for the last one.
func rampStep(since, slowStart time.Duration) (step int, left time.Duration) {
	if slowStart <= 0 || since >= slowStart {
		return rampSteps, 0
	}
	const climbs = rampSteps - 1
	each := max(slowStart/climbs, 1)
	step = 1 + min(int(max(since, 0)/each), climbs-1)
	until := time.Duration(step) * each
	if step == climbs {
		until = slowStart
	}
	return step, until - since
}

// ramped returns the places with their weights as they are now, and sets the
// timer for the next step of a slow start.
func (p *Pool) ramped(list []place) []place {
	if p.cfg.SlowStart <= 0 {
		return list
	}
	now := time.Now()
	next := time.Duration(0)
	list = slices.Clone(list)
	for i, at := range list {
		step := rampSteps
		if back := at.target.Back(); !back.IsZero() && at.target.InRotation() {
			var left time.Duration
			step, left = rampStep(now.Sub(back), p.cfg.SlowStart)
			if left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
		list[i].weight = at.weight * step
	}
	if next > 0 {
		p.ramp.set(next, p.Changed)
	}
	return list
}
