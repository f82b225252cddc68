package load

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseLog(t *testing.T) {
	for name, tc := range map[string]struct {
		log  string
		want []Logged
		bad  bool
	}{
		"nothing": {},
		"answers": {
			log: "1796026477981393\t200\t16455\n1796026477982304\t502\t15\n",
			want: []Logged{
				{time.UnixMicro(1796026477981393), 200, 16455 * time.Microsecond},
				{time.UnixMicro(1796026477982304), 502, 15 * time.Microsecond},
			},
		},
		"a failure":    {log: "1\t-1\t2\n", want: []Logged{{time.UnixMicro(1), -1, 2 * time.Microsecond}}},
		"more columns": {log: "1\t200\t2\tmore\n", want: []Logged{{time.UnixMicro(1), 200, 2 * time.Microsecond}}},
		"cut off":      {log: "1\t200\n", bad: true},
		"no numbers":   {log: "start\tstatus\ttook\n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLog(strings.NewReader(tc.log))
			if (err != nil) != tc.bad {
				t.Fatalf("error %v", err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
