package chart

import (
	"math"
	"path/filepath"
	"testing"
)

// What has not been measured has no figures, which a chart can do without.
func TestNoFigures(t *testing.T) {
	for name, draw := range map[string]func(string, Rows) error{"bars": Bars, "dots": Dots} {
		for _, log := range []bool{false, true} {
			none := Value{math.NaN(), math.NaN(), math.NaN()}
			for _, rows := range []Rows{
				{Log: log},
				{Log: log, Groups: []string{"a"}, Series: make([]Series, 1), Values: [][]Value{{none}}},
			} {
				if err := draw(filepath.Join(t.TempDir(), name+".svg"), rows); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
