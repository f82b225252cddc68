package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// logScale is a logarithmic scale that has a zero: of 1 + x.
type logScale struct{}

func (logScale) Normalize(low, high, x float64) float64 {
	return (math.Log1p(x) - math.Log1p(low)) / (math.Log1p(high) - math.Log1p(low))
}

// powers are marks at the powers of ten, and at zero.
type powers struct{}

func (powers) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	if low <= 0 {
		ticks = append(ticks, plot.Tick{Value: 0, Label: "0"})
	}
	for power := 0.001; power <= high; power *= 10 {
		// products of 0.001 are not quite powers of ten
		if exact := math.Pow(10, math.Round(math.Log10(power))); exact >= low && (exact >= 1 || low > 0) {
			ticks = append(ticks, plot.Tick{Value: exact, Label: number(exact)})
		}
	}
	return ticks
}

// steps are marks at equal distances, at round values.
type steps struct{}

func (steps) Ticks(low, high float64) []plot.Tick {
	const most = 8
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, more := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step > most {
			step *= more
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high+step/1e6; i++ {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(i*step, 'g', 12, 64), 64)
		ticks = append(ticks, plot.Tick{Value: i * step, Label: number(v)})
	}
	return ticks
}

// number is a short form of a value.
func number(v float64) string {
	if v >= 1_000_000 {
		return strconv.FormatFloat(v/1_000_000, 'g', 3, 64) + "M"
	}
	if v >= 10_000 {
		return strconv.FormatFloat(v/1000, 'f', 0, 64) + "k"
	}
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
