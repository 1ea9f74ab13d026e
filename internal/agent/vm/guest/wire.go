package guest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of the agent's published contract, by hand: there are few, and
// generated code would bring its runtime with it. Unknown fields are skipped, so that
// newer agents may say more.

// message is what the codec takes.
type message interface {
	append([]byte) []byte
	// parse keeps nothing of the data.
	parse([]byte) error
}

// codec writes the messages below in protobuf's wire format.
type codec struct{}

// Name makes the content type application/grpc+proto.
func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("%T is no message of the guest agent", v)
	}
	if r, ok := v.(*execRequest); ok && r.input != nil {
		b := inputs.Get(0)
		*b = m.append((*b)[:0])
		return mem.BufferSlice{mem.NewBuffer(b, &inputs)}, nil
	}
	return mem.BufferSlice{mem.SliceBuffer(m.append(nil))}, nil
}

// inputs are buffers for messages of input, which gRPC gives back when it has sent them.
var inputs inputPool

type inputPool struct{ free sync.Pool }

// Get returns room for any piece of input.
func (p *inputPool) Get(int) *[]byte {
	if b, ok := p.free.Get().(*[]byte); ok {
		return b
	}
	return new(make([]byte, 0, inputPiece+inputHead))
}

// Put takes it back.
func (p *inputPool) Put(b *[]byte) { p.free.Put(b) }

// inputHead is what a message has beside its input, at most.
const inputHead = 16

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(message)
	if !ok {
		return fmt.Errorf("%T is no message of the guest agent", v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return m.parse(whole.ReadOnlyData())
}

// execRequest is one of a command (the first), input, or a new size.
type execRequest struct {
	command *command
	input   *[]byte // empty: no more will come
	size    *terminalSize
}

func (r *execRequest) append(b []byte) []byte {
	switch {
	case r.command != nil:
		return appendMessage(b, 1, r.command.append(nil))
	case r.input != nil:
		return appendInput(b, *r.input)
	case r.size != nil:
		return appendMessage(b, 3, r.size.append(nil))
	}
	return b
}

func (r *execRequest) parse([]byte) error { return errors.New("an exec request is never received") }

type command struct {
	name        string
	args        []string
	interactive bool
	tty         bool
	size        terminalSize
	env         map[string]string
	dir         string
}

func (c *command) append(b []byte) []byte {
	b = appendString(b, 1, c.name)
	for _, a := range c.args {
		// An empty argument is one, so that it is written too.
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendString(b, a)
	}
	b = appendBool(b, 3, c.interactive)
	b = appendBool(b, 4, c.tty)
	if c.tty {
		b = appendMessage(b, 5, c.size.append(nil))
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		b = appendMessage(b, 7, appendString(appendString(nil, 1, name), 2, c.env[name]))
	}
	return appendString(b, 8, c.dir)
}

type terminalSize struct{ rows, cols uint16 }

func (s terminalSize) append(b []byte) []byte {
	b = appendNumber(b, 1, uint64(s.rows))
	return appendNumber(b, 2, uint64(s.cols))
}

// execResponse is one of output, the news that the command runs, or its end. Its output is
// good until the next is read into it.
type execResponse struct {
	exited  bool
	code    int
	stdout  []byte
	stderr  []byte
	started bool
}

func (r *execResponse) append(b []byte) []byte { return b }

func (r *execResponse) parse(data []byte) error {
	*r = execResponse{stdout: r.stdout[:0], stderr: r.stderr[:0]}
	return fields(data, func(n protowire.Number, value []byte, _ uint64) error {
		switch n {
		case 1:
			r.exited = true
			return fields(value, func(n protowire.Number, _ []byte, v uint64) error {
				if n == 1 {
					r.code = int(int32(v))
				}
				return nil
			})
		case 2:
			return chunk(value, &r.stdout)
		case 3:
			return chunk(value, &r.stderr)
		case 4:
			r.started = true
		}
		return nil
	})
}

func chunk(data []byte, to *[]byte) error {
	return fields(data, func(n protowire.Number, value []byte, _ uint64) error {
		if n == 1 {
			*to = append((*to)[:0], value...)
		}
		return nil
	})
}

type addressRequest struct{}

func (*addressRequest) append(b []byte) []byte { return b }
func (*addressRequest) parse([]byte) error     { return nil }

type addressResponse struct{ IP string }

func (*addressResponse) append(b []byte) []byte { return b }

func (r *addressResponse) parse(data []byte) error {
	return fields(data, func(n protowire.Number, value []byte, _ uint64) error {
		if n == 1 {
			r.IP = string(value)
		}
		return nil
	})
}

// fields calls each with every field of a message: with its bytes or its number.
func fields(data []byte, each func(n protowire.Number, value []byte, number uint64) error) error {
	for len(data) > 0 {
		n, kind, used := protowire.ConsumeTag(data)
		if used < 0 {
			return fmt.Errorf("reading a message of the guest: %w", protowire.ParseError(used))
		}
		data = data[used:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, used = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			number, used = protowire.ConsumeVarint(data)
		default:
			used = protowire.ConsumeFieldValue(n, kind, data)
		}
		if used < 0 {
			return fmt.Errorf("reading a message of the guest: %w", protowire.ParseError(used))
		}
		data = data[used:]
		if err := each(n, value, number); err != nil {
			return err
		}
	}
	return nil
}

func appendMessage(b []byte, n protowire.Number, body []byte) []byte {
	b = protowire.AppendTag(b, n, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}

// appendInput writes a message within a message, and copies the input once.
func appendInput(b, input []byte) []byte {
	n := len(input)
	if n > 0 {
		n += protowire.SizeTag(1) + protowire.SizeVarint(uint64(n))
	}
	b = slices.Grow(b, protowire.SizeTag(2)+protowire.SizeBytes(n))
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(n))
	if n == 0 {
		return b
	}
	return appendMessage(b, 1, input)
}

func appendString(b []byte, n protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	b = protowire.AppendTag(b, n, protowire.BytesType)
	return protowire.AppendString(b, v)
}

func appendNumber(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendBool(b []byte, n protowire.Number, v bool) []byte {
	return appendNumber(b, n, protowire.EncodeBool(v))
}
