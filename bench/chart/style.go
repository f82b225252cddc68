// Package chart draws the plots of the report, as SVG on a white ground, which
// is legible whatever ground the page has.
package chart

import (
	"bytes"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series is what one line of the legend stands for.
type Series struct {
	Name string
	// Color is an index into the colours.
	Color int
	// Pale makes it lighter, Dashed its lines.
	Pale, Dashed bool
}

const (
	width   = vg.Length(720)
	margin  = vg.Length(10)
	legible = 11 // points
	small   = 9
)

// colours can be told apart by everybody; they are those of Okabe and Ito.
var colours = []color.NRGBA{
	{0, 114, 178, 255},   // blue
	{213, 94, 0, 255},    // vermilion
	{0, 158, 115, 255},   // green
	{204, 121, 167, 255}, // purple
	{86, 180, 233, 255},  // sky
	{230, 159, 0, 255},   // orange
}

var (
	ink  = color.Gray{40}
	rule = color.Gray{205}
	band = color.Gray{246}
)

func (s Series) color() color.NRGBA {
	c := colours[s.Color%len(colours)]
	if !s.Pale {
		return c
	}
	lighter := func(v uint8) uint8 { return v + uint8(float64(255-v)*0.55) }
	return color.NRGBA{lighter(c.R), lighter(c.G), lighter(c.B), 255}
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 6
	p.X.Label.Padding, p.Y.Label.Padding = 5, 5
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = steps{}, steps{}
	p.X.Color, p.Y.Color = rule, rule
	p.X.Tick.Color, p.Y.Tick.Color = rule, rule
	for style, size := range map[*text.Style]vg.Length{
		&p.Title.TextStyle: legible + 2, &p.X.Label.TextStyle: legible, &p.Y.Label.TextStyle: legible,
		&p.X.Tick.Label: legible - 1, &p.Y.Tick.Label: legible - 1,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
		style.Color = ink
	}
	return p
}

// save draws a plot with its legend below the title.
func save(path string, p *plot.Plot, height vg.Length, legend []Series, line bool) error {
	title := p.Title
	axis := p.X.Label
	if p.Y.Label.Text != "" {
		title.Text += " (" + p.Y.Label.Text + ")"
	}
	// drawn here, so that they are in place on every scale
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "", "", ""
	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Path())
	all = draw.Crop(all, margin, -margin, margin, -margin)

	style := title.TextStyle
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	all.FillText(style, vg.Point{X: all.Min.X, Y: all.Max.Y}, title.Text)
	top := style.Height(title.Text) + title.Padding

	style = p.X.Tick.Label
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	below := drawLegend(draw.Crop(all, 0, 0, 0, -top), style, legend, line)

	style = axis.TextStyle
	style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
	all.FillText(style, vg.Point{X: (all.Min.X + all.Max.X) / 2, Y: all.Min.Y}, axis.Text)
	p.Draw(draw.Crop(all, 0, 0, style.Height(axis.Text)+axis.Padding, -top-below))

	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Liberation has the measures of Arial, and is not everywhere.
	out := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, out, 0o644)
}

// drawLegend draws names beside samples of their colours, in as many lines as
// they need, and returns their height.
func drawLegend(c draw.Canvas, style text.Style, legend []Series, line bool) vg.Length {
	const sample, gap, between, lineHeight = 14, 5, 18, 17
	x, y := c.Min.X, c.Max.Y-lineHeight/2
	for _, s := range legend {
		if x > c.Min.X && x+sample+gap+style.Width(s.Name) > c.Max.X {
			x, y = c.Min.X, y-lineHeight
		}
		if line {
			c.StrokeLine2(s.line(), x, y, x+sample, y)
		} else {
			c.FillPolygon(s.color(), []vg.Point{{X: x, Y: y - 4}, {X: x + sample, Y: y - 4}, {X: x + sample, Y: y + 4}, {X: x, Y: y + 4}})
		}
		c.FillText(style, vg.Point{X: x + sample + gap, Y: y}, s.Name)
		x += sample + gap + style.Width(s.Name) + between
	}
	return c.Max.Y - y + lineHeight/2 + 4
}

// line is how lines of the series are drawn.
func (s Series) line() draw.LineStyle {
	style := draw.LineStyle{Color: s.color(), Width: 2}
	if s.Dashed {
		style.Dashes = []vg.Length{4, 3}
	}
	return style
}
