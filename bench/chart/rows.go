package chart

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Value is a figure with its spread. If Mid is NaN, there is none.
type Value struct{ Low, Mid, High float64 }

// Rows compares series group by group, from top to bottom.
type Rows struct {
	Title, Axis string
	Groups      []string
	Series      []Series
	// Values are those of each series, in the order of the groups.
	Values [][]Value
	// Log makes the scale logarithmic.
	Log bool
}

// Bars draws bars from zero, with the figures at their ends.
func Bars(path string, r Rows) error { return r.save(path, false) }

// Dots draws a dot for every figure, and a line for its spread.
func Dots(path string, r Rows) error { return r.save(path, true) }

func (r Rows) save(path string, dots bool) error {
	const bar, between, rest = 11, 9, 90
	p := newPlot(r.Title, r.Axis, "")
	p.Add(rows{r, dots})
	var names []plot.Tick
	for i, name := range r.Groups {
		names = append(names, plot.Tick{Value: float64(len(r.Groups) - 1 - i), Label: name})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Tick.Length = 0
	p.Y.Min, p.Y.Max = -0.5, float64(len(r.Groups))-0.5
	switch {
	case r.Log && dots:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
		p.X.Min = math.Pow(10, math.Floor(math.Log10(p.X.Min)))
		p.X.Max = math.Pow(10, math.Ceil(math.Log10(p.X.Max)))
	case r.Log:
		p.X.Scale, p.X.Tick.Marker = logScale{}, powers{}
		p.X.Min, p.X.Max = 0, p.X.Max*2 // room for figures
	default:
		p.X.Min, p.X.Max = 0, p.X.Max*1.12
	}
	height := vg.Length(len(r.Groups)*(len(r.Series)*bar+between) + rest)
	return save(path, p, height, r.Series, false)
}

// rows draws Rows.
type rows struct {
	Rows
	dots bool
}

// DataRange is that of all figures, from 1 to 10 if there are none.
func (r rows) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = math.Inf(1), 0
	for _, v := range slices.Concat(r.Values...) {
		if !math.IsNaN(v.Mid) {
			xmin, xmax = min(xmin, v.Low), max(xmax, v.High, 1)
		}
	}
	if xmin > xmax {
		return 1, 10, 0, 1
	}
	return xmin, xmax, 0, 1
}

// Plot draws the groups, every other one on a band.
func (r rows) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	figures := p.X.Tick.Label
	figures.Font.Size = small
	figures.XAlign, figures.YAlign = draw.XLeft, draw.YCenter
	for i := range r.Groups {
		if i%2 == 0 {
			at := float64(len(r.Groups) - 1 - i)
			c.FillPolygon(band, box(c.Min.X, y(at-0.5), c.Max.X, y(at+0.5)))
		}
	}
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !tick.IsMinor() {
			c.StrokeLine2(draw.LineStyle{Color: rule, Width: 0.5}, x(tick.Value), c.Min.Y, x(tick.Value), c.Max.Y)
		}
	}
	const share = 0.84 // of a group, without what separates it from others
	thick := share / float64(len(r.Series))
	for k, s := range r.Series {
		for i, v := range r.Values[k] {
			if math.IsNaN(v.Mid) {
				continue
			}
			middle := float64(len(r.Groups)-1-i) + share/2 - (float64(k)+0.5)*thick
			r.mark(c, s.color(), v, x, y(middle), (y(thick)-y(0))/2, figures)
		}
	}
}

// mark draws one figure.
func (r rows) mark(c draw.Canvas, colour color.Color, v Value, x func(float64) vg.Length, middle, half vg.Length, figures text.Style) {
	if r.dots {
		c.StrokeLine2(draw.LineStyle{Color: colour, Width: 1.5}, x(v.Low), middle, x(v.High), middle)
		c.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: 3.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x(v.Mid), Y: middle})
		return
	}
	c.FillPolygon(colour, box(x(0), middle-half*0.85, x(v.Mid), middle+half*0.85))
	if v.High > v.Low {
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.75}, x(v.Low), middle, x(v.High), middle)
	}
	c.FillText(figures, vg.Point{X: x(max(v.Mid, v.High)) + 4, Y: middle}, number(v.Mid))
}

func box(left, bottom, right, top vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}}
}
