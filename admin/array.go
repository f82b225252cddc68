package admin

import (
	"encoding/json"
	"io"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// WriteArray writes a JSON array of what show makes of the upstreams for which
// each calls its argument, until that returns false. They are written one by
// one, so that no answer is built whole in memory. An error comes too late to
// be told to the client.
func WriteArray(w io.Writer, each func(func(upstreams.Upstream) bool), show func(upstreams.Upstream) Upstream) error {
	before := "["
	var err error
	each(func(u upstreams.Upstream) bool {
		var object []byte
		if object, err = json.Marshal(show(u)); err == nil {
			_, err = io.WriteString(w, before+string(object))
		}
		before = ",\n"
		return err == nil
	})
	if err != nil {
		return err
	}
	end := "]\n"
	if before == "[" {
		end = "[]\n"
	}
	_, err = io.WriteString(w, end)
	return err
}
