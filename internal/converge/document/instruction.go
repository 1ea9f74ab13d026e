package document

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

const (
	// signedSchema is the version of the envelope around an instruction.
	signedSchema = "macfleet.dev/signed/v1"
	// instructionSchema is the version of Instruction.
	instructionSchema = "macfleet.dev/instruction/v1"
	// maxSigned bounds an envelope, in bytes: base64 makes four bytes of three.
	maxSigned = 2 * MaxSize
)

// Instruction is what root of one Mac is told to do, once. The fleet's key signs
// it, so that nobody on the Mac can write one, or use one a second time.
type Instruction struct {
	Schema string `json:"schema"`
	// Verb is converge, upgrade, leave or uninstall.
	Verb string `json:"verb"`
	// Name, ProviderID and Epoch are the Host's: whom it is for.
	Name       string `json:"name"`
	ProviderID string `json:"providerID"`
	Epoch      int64  `json:"epoch"`
	// Counter is above that of all instructions which the Mac took in this epoch.
	Counter int64 `json:"counter"`
	// Desired is what converge makes the Mac.
	Desired *Desired `json:"desired,omitempty"`
	// Build is the SHA-256 of the staged file that upgrade takes.
	Build string `json:"build,omitempty"`
}

// String hides the document, which may hold a token.
func (i Instruction) String() string {
	return fmt.Sprintf("%s of %s, epoch %d, counter %d", i.Verb, i.Name, i.Epoch, i.Counter)
}

// GoString hides the document.
func (i Instruction) GoString() string { return i.String() }

// LogValue hides the document.
func (i Instruction) LogValue() slog.Value { return slog.StringValue(i.String()) }

// envelope carries the exact bytes that were signed.
type envelope struct {
	Schema      string `json:"schema"`
	Instruction []byte `json:"instruction"`
	Signature   []byte `json:"signature"`
}

// signed is what a signature covers. The prefix keeps one that was made for
// anything else from being one of an instruction.
func signed(instruction []byte) []byte {
	return append([]byte("macfleet instruction v1\n"), instruction...)
}

// Received is an instruction as it came. Whether the fleet has signed it is yet to
// be asked: SignedBy.
type Received struct {
	Instruction
	body, signature []byte
}

// SignedBy reports whether the key has signed the instruction.
func (r Received) SignedBy(key ed25519.PublicKey) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, signed(r.body), r.signature)
}

// DecodeSigned reads one signed instruction and nothing after it. It does not look
// at the signature. Unknown fields are refused. Errors are ErrTooLarge,
// *SchemaError, *FieldError or a syntax error that quotes no input.
func DecodeSigned(r io.Reader) (Received, error) {
	data, err := readBounded(r, maxSigned)
	if err != nil {
		return Received{}, fmt.Errorf("reading the signed instruction: %w", err)
	}
	var e envelope
	if err := decodeAs(data, signedSchema, &e); err != nil {
		return Received{}, fmt.Errorf("decoding the signed instruction: %w", err)
	}
	if len(e.Instruction) > MaxSize {
		return Received{}, fmt.Errorf("decoding the signed instruction: %w", errTooLarge)
	}
	var i Instruction
	if err := decodeAs(e.Instruction, instructionSchema, &i); err != nil {
		return Received{}, fmt.Errorf("decoding the instruction: %w", err)
	}
	if err := i.validate(); err != nil {
		return Received{}, err
	}
	return Received{Instruction: i, body: e.Instruction, signature: e.Signature}, nil
}

// decodeAs looks at the schema first, so that a newer document is called newer and
// not malformed.
func decodeAs(data []byte, schema string, v any) error {
	if err := checkSchema(data, schema); err != nil {
		return err
	}
	return decodeStrict(data, v)
}

// validate reports the first field that does not fit the verb, or the document.
func (i Instruction) validate() error {
	refuse := func(field, reason string) error {
		return &FieldError{Document: "instruction", Field: field, Reason: reason}
	}
	switch {
	case i.Counter <= 0:
		return refuse("counter", "is not positive")
	case i.Verb == VerbUpgrade && !IsSHA256(i.Build):
		return refuse("build", "is not a SHA-256 in lower-case hex")
	case i.Verb != VerbConverge:
		return nil
	case i.Desired == nil:
		return refuse("desired", "is missing")
	case i.Desired.Schema != DesiredSchema:
		return fmt.Errorf("decoding the desired document: %w", &schemaError{Want: DesiredSchema, Got: clean(i.Desired.Schema, maxName)})
	case i.Desired.Host.Name != i.Name, i.Desired.Host.ProviderID != i.ProviderID, i.Desired.Host.Epoch != i.Epoch:
		return refuse("desired.host", "is another Mac, or another epoch, than the instruction is for")
	}
	return i.Desired.Validate()
}

// encodeSigned returns the instruction in its envelope, one line of JSON.
func encodeSigned(key ed25519.PrivateKey, i Instruction) ([]byte, error) {
	i.Schema = instructionSchema
	if err := i.validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("encoding an instruction: %w", err)
	}
	return encode(envelope{Schema: signedSchema, Instruction: body, Signature: ed25519.Sign(key, signed(body))})
}
