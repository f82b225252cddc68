package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	weakrand "math/rand/v2"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoService is a gRPC service that sends back what it gets: in one answer
// (Say), message by message (Talk), or byte by byte (Spell).
var echoService = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		message := new(wrapperspb.BytesValue)
		if err := decode(message); err != nil {
			return nil, err
		}
		if len(message.Value) == 0 {
			return nil, status.Error(codes.ResourceExhausted, "nothing to say: 100%")
		}
		return message, grpc.SetTrailer(ctx, metadata.Pairs("length", fmt.Sprint(len(message.Value))))
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Talk", ClientStreams: true, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			for n := 0; ; n++ {
				message := new(wrapperspb.BytesValue)
				switch err := stream.RecvMsg(message); {
				case errors.Is(err, io.EOF):
					stream.SetTrailer(metadata.Pairs("messages", fmt.Sprint(n)))
					return nil
				case err != nil:
					return err
				}
				if err := stream.SendMsg(message); err != nil {
					return err
				}
			}
		}},
		{StreamName: "Spell", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			message := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(message); err != nil {
				return err
			}
			for i := range message.Value {
				if err := stream.SendMsg(wrapperspb.Bytes(message.Value[i : i+1])); err != nil {
					return err
				}
			}
			return nil
		}},
	},
}

// gRPC over h2c: a stream in both directions on every upstream, with calls of
// other kinds beside it, over two reloads.
func TestStreamsGRPC(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(*stage) http.HandlerFunc {
		server := grpc.NewServer()
		server.RegisterService(&echoService, nil)
		return server.ServeHTTP
	}, "transport http {\nversions h2c\n}")
	var acts []act
	for range 6 {
		acts = append(acts, openTalk(t, s.addr))
	}
	if got := s.inFlight(t); fmt.Sprint(got) != "[2 2 2]" {
		t.Errorf("streams under way: %v", got)
	}
	s.play(t, 2, 50, acts...)
}

// A talk is a client of the service, with its Talk.
type talk struct {
	conn   *grpc.ClientConn
	ctx    context.Context
	stream grpc.ClientStream
	sent   int
}

func openTalk(t testing.TB, addr string) *talk {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(func() { cancel(); _ = conn.Close() })
	stream, err := conn.NewStream(ctx, &echoService.Streams[0], "/test.Echo/Talk")
	if err != nil {
		t.Fatal(err)
	}
	tk := &talk{conn: conn, ctx: ctx, stream: stream}
	if err := tk.exchange(nil); err != nil { // only then has it reached an upstream
		t.Fatal(err)
	}
	return tk
}

// exchange sends a message and looks that it comes back.
func (tk *talk) exchange(message []byte) error {
	if err := tk.stream.SendMsg(wrapperspb.Bytes(message)); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	back := new(wrapperspb.BytesValue)
	if err := tk.stream.RecvMsg(back); err != nil {
		return fmt.Errorf("receiving: %w", err)
	}
	if !bytes.Equal(back.Value, message) {
		return fmt.Errorf("sent %d bytes, got others, %d of them", len(message), len(back.Value))
	}
	tk.sent++
	return nil
}

func (tk *talk) round(i int) error {
	message := make([]byte, 1+weakrand.IntN(1<<14))
	_, _ = rand.Read(message)
	if err := tk.exchange(message); err != nil {
		return err
	}
	switch i % 10 {
	case 0:
		return tk.spell(message[:min(len(message), 100)])
	case 5:
		return tk.refused()
	}
	return tk.say(message)
}

func (tk *talk) say(message []byte) error {
	back := new(wrapperspb.BytesValue)
	var trailer metadata.MD
	err := tk.conn.Invoke(tk.ctx, "/test.Echo/Say", wrapperspb.Bytes(message), back, grpc.Trailer(&trailer))
	if want := fmt.Sprint([]string{fmt.Sprint(len(message))}); err == nil && (!bytes.Equal(back.Value, message) || fmt.Sprint(trailer["length"]) != want) {
		err = fmt.Errorf("said %d bytes, got %d, trailers %v", len(message), len(back.Value), trailer)
	}
	return err
}

// refused looks that an error comes as the backend meant it.
func (tk *talk) refused() error {
	err := tk.conn.Invoke(tk.ctx, "/test.Echo/Say", wrapperspb.Bytes(nil), new(wrapperspb.BytesValue))
	if got := status.Convert(err); got.Code() != codes.ResourceExhausted || got.Message() != "nothing to say: 100%" {
		return fmt.Errorf("got error %w", err)
	}
	return nil
}

func (tk *talk) spell(word []byte) error {
	stream, err := tk.conn.NewStream(tk.ctx, &echoService.Streams[1], "/test.Echo/Spell")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(wrapperspb.Bytes(word)); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var spelled []byte
	for {
		letter := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(letter); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("spelling: %w", err)
		}
		spelled = append(spelled, letter.Value...)
	}
	if !bytes.Equal(spelled, word) {
		return fmt.Errorf("spelled %x, got %x", word, spelled)
	}
	return nil
}

func (tk *talk) end() error {
	if err := tk.stream.CloseSend(); err != nil {
		return err
	}
	if err := tk.stream.RecvMsg(new(wrapperspb.BytesValue)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the end: %w", err)
	}
	if got := fmt.Sprint(tk.stream.Trailer()["messages"]); got != fmt.Sprint([]string{fmt.Sprint(tk.sent)}) {
		return fmt.Errorf("sent %d messages, the trailer says %s", tk.sent, got)
	}
	return nil
}

// A call that no upstream can serve ends with UNAVAILABLE, the code that gRPC
// clients try again for, and does so quickly.
func TestStreamsGRPCUnavailable(t *testing.T) {
	t.Parallel()
	addr, gone := freeAddr(t), refusing(t)
	c := launch(t, site(addr, to("h2c://"+gone)), "servers {\n\t\tprotocols h1 h2c\n\t}")
	c.waitStatus(t, "down", gone)
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	err = conn.Invoke(ctx, "/test.Echo/Say", wrapperspb.Bytes([]byte("x")), new(wrapperspb.BytesValue))
	if status.Code(err) != codes.Unavailable || time.Since(start) > patience/2 {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}
