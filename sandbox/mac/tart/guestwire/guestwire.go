// Package guestwire describes the gRPC service of tart's guest agent: the messages
// that travel through control.sock, built from field numbers at run time. What the
// calls mean is left to package guest, which serves them, and to the tart command,
// which makes them.
package guestwire

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Service is the name of the service; it has no package.
const Service = "Agent"

// Full names of the calls.
const (
	ExecCall      = "/" + Service + "/Exec"
	ResolveIPCall = "/" + Service + "/ResolveIP"
	SignalCall    = "/" + Service + "/Signal"
)

// Schema makes the messages of the service.
type Schema struct {
	messages protoreflect.MessageDescriptors
}

// NewSchema builds the descriptors; it costs about as much as parsing a small .proto
// file.
func NewSchema() (*Schema, error) {
	file, err := protodesc.NewFile(describe(), new(protoregistry.Files))
	if err != nil {
		return nil, fmt.Errorf("describing the guest agent: %w", err)
	}
	return &Schema{messages: file.Messages()}, nil
}

// New is an empty message of the given name.
func (s *Schema) New(name string) *Message {
	return &Message{dynamicpb.NewMessage(s.messages.ByName(protoreflect.Name(name)))}
}

// Message is one message with its fields by name. A field that its type does not
// have is a mistake of the program and panics.
type Message struct{ *dynamicpb.Message }

var _ proto.Message = (*Message)(nil)

func (m *Message) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

// Has reports whether a field was sent.
func (m *Message) Has(name string) bool { return m.Message.Has(m.field(name)) }

// Sub is a message within; an empty one where it was not sent.
func (m *Message) Sub(name string) *Message {
	sub := m.Get(m.field(name)).Message().Interface()
	if d, ok := sub.(*dynamicpb.Message); ok {
		return &Message{d}
	}
	return &Message{dynamicpb.NewMessage(m.field(name).Message())}
}

// Text is a field of type string.
func (m *Message) Text(name string) string { return m.Get(m.field(name)).String() }

// Bytes is a field of bytes.
func (m *Message) Bytes(name string) []byte { return m.Get(m.field(name)).Bytes() }

// Number is a field of any whole number.
func (m *Message) Number(name string) int {
	switch f := m.field(name); f.Kind() { // the other kinds are signed
	case protoreflect.Uint32Kind:
		return int(m.Get(f).Uint()) // 32 bits fit
	case protoreflect.EnumKind:
		return int(m.Get(f).Enum())
	default:
		return int(m.Get(f).Int())
	}
}

// Yes is a field of type bool.
func (m *Message) Yes(name string) bool { return m.Get(m.field(name)).Bool() }

// Texts is a repeated field of strings.
func (m *Message) Texts(name string) []string {
	list := m.Get(m.field(name)).List()
	var out []string
	for i := range list.Len() {
		out = append(out, list.Get(i).String())
	}
	return out
}

// Map is a field that maps strings to strings.
func (m *Message) Map(name string) map[string]string {
	out := map[string]string{}
	m.Get(m.field(name)).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		out[k.String()] = v.String()
		return true
	})
	return out
}

// Set gives a field a value of its Go type: string, []byte, bool, int32, uint32,
// []string, map[string]string, *Message, or protoreflect.EnumNumber. It returns m.
func (m *Message) Set(name string, value any) *Message {
	f := m.field(name)
	switch v := value.(type) {
	case []string:
		list := m.Mutable(f).List()
		for _, s := range v {
			list.Append(protoreflect.ValueOfString(s))
		}
	case map[string]string:
		entries := m.Mutable(f).Map()
		for k, v := range v {
			entries.Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
		}
	case *Message:
		m.Message.Set(f, protoreflect.ValueOfMessage(v.Message))
	default:
		m.Message.Set(f, protoreflect.ValueOf(v))
	}
	return m
}

// column is one field of a message.
type column struct {
	name   string
	number int32
	kind   descriptorpb.FieldDescriptorProto_Type
	of     string // the message or enum it holds
	many   bool
}

const (
	text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	boolean = descriptorpb.FieldDescriptorProto_TYPE_BOOL
	raw     = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	signed  = descriptorpb.FieldDescriptorProto_TYPE_INT32
	natural = descriptorpb.FieldDescriptorProto_TYPE_UINT32
	message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	enum    = descriptorpb.FieldDescriptorProto_TYPE_ENUM
)

func describe() *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("simulated-agent.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			oneOf("ExecRequest",
				column{name: "command", number: 1, kind: message, of: "Command"},
				column{name: "standard_input", number: 2, kind: message, of: "IOChunk"},
				column{name: "terminal_resize", number: 3, kind: message, of: "TerminalSize"}),
			command(),
			record("TerminalSize",
				column{name: "rows", number: 1, kind: natural},
				column{name: "cols", number: 2, kind: natural}),
			record("IOChunk", column{name: "data", number: 1, kind: raw}),
			oneOf("ExecResponse",
				column{name: "exit", number: 1, kind: message, of: "Exit"},
				column{name: "standard_output", number: 2, kind: message, of: "IOChunk"},
				column{name: "standard_error", number: 3, kind: message, of: "IOChunk"},
				column{name: "started", number: 4, kind: message, of: "Started"}),
			record("Exit", column{name: "code", number: 1, kind: signed}),
			record("Started", column{name: "exec_id", number: 1, kind: text}),
			record("ResolveIPRequest"),
			record("ResolveIPResponse", column{name: "ip", number: 1, kind: text}),
			record("SignalRequest",
				column{name: "exec_id", number: 1, kind: text},
				column{name: "signal", number: 2, kind: enum, of: "SignalKind"}),
			record("Empty"), // on the wire the same as google.protobuf.Empty
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{
			Name: proto.String("SignalKind"),
			Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: proto.String("UNSPECIFIED"), Number: proto.Int32(0)},
				{Name: proto.String("TERM"), Number: proto.Int32(1)},
				{Name: proto.String("KILL"), Number: proto.Int32(2)},
			},
		}},
	}
}

func command() *descriptorpb.DescriptorProto {
	m := record("Command",
		column{name: "name", number: 1, kind: text},
		column{name: "args", number: 2, kind: text, many: true},
		column{name: "interactive", number: 3, kind: boolean},
		column{name: "tty", number: 4, kind: boolean},
		column{name: "terminal_size", number: 5, kind: message, of: "TerminalSize"},
		column{name: "detach", number: 6, kind: boolean},
		column{name: "env", number: 7, kind: message, of: "Command.EnvEntry", many: true},
		column{name: "workdir", number: 8, kind: text},
		column{name: "user", number: 9, kind: text})
	entry := record("EnvEntry", column{name: "key", number: 1, kind: text}, column{name: "value", number: 2, kind: text})
	entry.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	m.NestedType = []*descriptorpb.DescriptorProto{entry}
	return m
}

func record(name string, columns ...column) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	for _, c := range columns {
		label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		if c.many {
			label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		}
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(c.name), Number: proto.Int32(c.number), Type: c.kind.Enum(), Label: label.Enum(),
		}
		if c.of != "" {
			f.TypeName = proto.String("." + c.of)
		}
		m.Field = append(m.Field, f)
	}
	return m
}

// oneOf is a message that holds one of its fields.
func oneOf(name string, columns ...column) *descriptorpb.DescriptorProto {
	m := record(name, columns...)
	m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("type")}}
	for _, f := range m.Field {
		f.OneofIndex = proto.Int32(0)
	}
	return m
}
