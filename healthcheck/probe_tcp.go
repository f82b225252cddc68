package healthcheck

import "context"

// askTCP opens a connection, with TLS if the pool's requests have it, and
// closes it.
func (p *Prober) askTCP(ctx context.Context, address string) Report {
	at, err := p.locate(address)
	if err != nil {
		return failed(err)
	}
	conn, err := p.dial(ctx, at)
	if err != nil {
		return failed(err)
	}
	_ = conn.Close()
	return Report{OK: true}
}
