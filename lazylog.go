package loadbalance

import (
	"reflect"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logLazily makes the embedded handler encode a request for its logs only if
// a line of the log is to be written. By itself it encodes each one, headers
// and all, for a debug line that hardly anybody has switched on; that costs
// more processor time than all that we do to a request.
//
// Nothing but reflection reaches its logger. If that is not where we expect
// it, nothing changes.
func logLazily(h *reverseproxy.Handler) {
	field := reflect.ValueOf(h).Elem().FieldByName("logger")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*zap.Logger]() {
		return
	}
	logger := (**zap.Logger)(field.Addr().UnsafePointer())
	*logger = (*logger).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return lazyCore{core} }))
}

// lazyCore encodes fields when they are first written, not when they are
// added.
type lazyCore struct{ zapcore.Core }

// With implements zapcore.Core.
func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return zapcore.NewLazyWith(c.Core, fields)
}
