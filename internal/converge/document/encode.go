package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxSize bounds a desired document and a report, in bytes. Both are a few
// kilobytes; more than this is not one of ours.
const MaxSize = 1 << 20

// errTooLarge is returned for input above MaxSize.
var errTooLarge = fmt.Errorf("document is larger than %d bytes", MaxSize)

// schemaError says that a document has another schema than the reader knows.
type schemaError struct{ Want, Got string }

func (e *schemaError) Error() string {
	return fmt.Sprintf("schema is %q, this build reads %q", e.Got, e.Want)
}

// EncodeDesired returns the one encoding of a valid document.
func EncodeDesired(d Desired) ([]byte, error) {
	d.Schema = DesiredSchema
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return encode(d)
}

// DecodeDesired reads one document and nothing after it. Unknown fields are
// refused: a Mac that would ignore a wish must say so. Errors are ErrTooLarge,
// *SchemaError, *FieldError or a syntax error that quotes no input.
func DecodeDesired(r io.Reader) (Desired, error) {
	data, err := readBounded(r, MaxSize)
	if err != nil {
		return Desired{}, fmt.Errorf("reading the desired document: %w", err)
	}
	var d Desired
	if err := decodeAs(data, DesiredSchema, &d); err != nil {
		return Desired{}, fmt.Errorf("decoding the desired document: %w", err)
	}
	if err := d.Validate(); err != nil {
		return Desired{}, err
	}
	return d, nil
}

// EncodeConfig returns the one encoding of the agent's configuration that d asks
// for. The agent answers with the SHA-256 of these bytes when its health is
// asked.
func EncodeConfig(d Desired) ([]byte, error) {
	d.Host.TakeOver = false // it is converge's alone
	d.Host.ManagedFrom = "" // else the agent would be restarted when another manager comes
	return encode(AgentConfig{Schema: ConfigSchema, Host: d.Host, Node: d.Node, Mac: d.Mac, Images: d.Images, Pods: d.Pods, Kubelet: d.Kubelet, Agent: d.Agent})
}

// DecodeConfig reads the bytes of an agent's configuration file. Unknown fields are
// refused: whoever reads it must not pass over a wish.
func DecodeConfig(data []byte) (AgentConfig, error) {
	if len(data) > MaxSize {
		return AgentConfig{}, errTooLarge
	}
	var c AgentConfig
	if err := decodeAs(data, ConfigSchema, &c); err != nil {
		return AgentConfig{}, fmt.Errorf("decoding the agent's configuration: %w", err)
	}
	return c, nil
}

// EncodeDiskMarker returns the disk marker as the bytes of its file.
func EncodeDiskMarker(j DiskMarker) ([]byte, error) {
	j.Schema = diskMarkerSchema
	return encode(j)
}

// DecodeDiskMarker reads the bytes of the file.
func DecodeDiskMarker(data []byte) (DiskMarker, error) {
	if len(data) > MaxSize {
		return DiskMarker{}, errTooLarge
	}
	if err := checkSchema(data, diskMarkerSchema); err != nil {
		return DiskMarker{}, fmt.Errorf("decoding the journal: %w", err)
	}
	var m DiskMarker
	if err := json.Unmarshal(data, &m); err != nil {
		return DiskMarker{}, fmt.Errorf("decoding the journal: %w", quiet(err))
	}
	return m, nil
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return append(data, '\n'), nil
}

func readBounded(r io.Reader, limit int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, errTooLarge
	}
	return data, nil
}

func checkSchema(data []byte, want string) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return quiet(err)
	}
	if head.Schema != want {
		return &schemaError{Want: want, Got: clean(head.Schema, maxName)}
	}
	return nil
}

func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return quiet(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the document")
	}
	return nil
}

// quiet replaces an error of package json by one that quotes none of the input,
// which may hold a token.
func quiet(err error) error {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("malformed JSON at byte %d", syntax.Offset)
	case errors.As(err, &typed):
		return fmt.Errorf("field %s cannot hold this value", typed.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("malformed JSON: it ends early")
	}
	return errors.New("malformed JSON or an unknown field")
}
