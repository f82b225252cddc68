package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// Point is a point of a line.
type Point struct{ X, Y float64 }

// Line is a line of points, from left to right.
type Line struct {
	Series
	Points []Point
}

// Graph is lines over one another.
type Graph struct {
	Title, X, Y string
	// LogX and LogY make scales logarithmic. ZeroY lets LogY begin at zero,
	// else points at zero are left out.
	LogX, LogY, ZeroY bool
	// Dotted marks the points.
	Dotted bool
	Lines  []Line
}

// Lines draws lines.
func Lines(path string, g Graph) error {
	const height = 330
	p := newPlot(g.Title, g.X, g.Y)
	var legend []Series
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = rule, rule
	p.Add(grid)
	for _, l := range g.Lines {
		points := make(plotter.XYs, 0, len(l.Points))
		for _, at := range l.Points {
			if (!g.LogX || at.X > 0) && (!g.LogY || g.ZeroY || at.Y > 0) {
				points = append(points, plotter.XY(at))
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.LineStyle = l.line()
		p.Add(line)
		if g.Dotted {
			dots.Color, dots.Radius, dots.Shape = l.color(), 3, draw.CircleGlyph{}
			p.Add(dots)
		}
		legend = append(legend, l.Series)
	}
	if g.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	}
	switch {
	case g.LogY && g.ZeroY:
		p.Y.Scale, p.Y.Tick.Marker = logScale{}, powers{}
		p.Y.Min, p.Y.Max = 0, p.Y.Max*1.5
	case g.LogY:
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
		p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	default:
		p.Y.Min, p.Y.Max = 0, p.Y.Max*1.05
	}
	return save(path, p, height, legend, true)
}
