package document

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var fleetKey = ed25519.NewKeyFromSeed([]byte("the fleet that these tests play!"))

func signerOf(d Desired, at time.Time) *Signer {
	return NewSigner(fleetKey, d.Host, func() time.Time { return at })
}

func decodeSigned(t *testing.T, data []byte) Received {
	t.Helper()
	r, err := DecodeSigned(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInstructionsSurviveTheirEnvelope(t *testing.T) {
	d, public := desired(), fleetKey.Public().(ed25519.PublicKey)
	s := signerOf(d, time.UnixMicro(1_800_000_000_000_000))
	for verb, sign := range map[string]func() ([]byte, error){
		VerbConverge: func() ([]byte, error) { return s.Converge(d) },
		VerbUpgrade:  func() ([]byte, error) { return s.Upgrade(d.Agent.SHA256) },
		VerbLeave:    s.Leave, VerbUninstall: s.Uninstall,
	} {
		data, err := sign()
		if err != nil {
			t.Fatal(err)
		}
		r := decodeSigned(t, data)
		if r.Verb != verb || r.Name != d.Host.Name || r.ProviderID != d.Host.ProviderID || r.Epoch != d.Host.Epoch || !r.SignedBy(public) {
			t.Errorf("%s: %s", verb, r)
		}
		if r.SignedBy(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)) || r.SignedBy(nil) {
			t.Errorf("%s: another key passes for the fleet's", verb)
		}
	}
}

// What was signed is these bytes, for this purpose. The same key signs nothing else
// that could pass for it.
func TestSignaturesCoverAllBytesOfAnInstruction(t *testing.T) {
	d, public := desired(), fleetKey.Public().(ed25519.PublicKey)
	data, err := signerOf(d, time.Unix(1_800_000_000, 0)).Leave()
	if err != nil {
		t.Fatal(err)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*envelope){
		"another verb": func(e *envelope) {
			e.Instruction = bytes.Replace(e.Instruction, []byte("leave"), []byte("uninstall"), 1)
		},
		"another counter": func(e *envelope) { e.Instruction = bytes.Replace(e.Instruction, []byte("18000"), []byte("19000"), 1) },
		"a space":         func(e *envelope) { e.Instruction = append(e.Instruction, ' ') },
		"unsigned":        func(e *envelope) { e.Signature = nil },
		"without purpose": func(e *envelope) { e.Signature = ed25519.Sign(fleetKey, e.Instruction) },
		"as a build": func(e *envelope) {
			e.Signature = ed25519.Sign(fleetKey, append([]byte("macfleet agent build v1\n"), e.Instruction...))
		},
	} {
		changed := envelope{e.Schema, bytes.Clone(e.Instruction), bytes.Clone(e.Signature)}
		change(&changed)
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if r := decodeSigned(t, text); r.SignedBy(public) {
			t.Errorf("%s: passes for signed", name)
		}
	}
	if !decodeSigned(t, data).SignedBy(public) {
		t.Error("what nobody changed does not")
	}
}

func TestDecodeSignedRefuses(t *testing.T) {
	d := desired()
	s := signerOf(d, time.Unix(1_800_000_000, 0))
	good, err := s.Converge(d)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := EncodeDesired(d)
	if err != nil {
		t.Fatal(err)
	}
	inside := func(change func(*Instruction)) string {
		i := decodeSigned(t, good).Instruction
		change(&i)
		body, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(envelope{signedSchema, body, ed25519.Sign(fleetKey, signed(body))})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":            {"", "ends early"},
		"truncated":        {string(good[:len(good)/2]), "ends early"},
		"not in one":       {string(plain), `schema is "macfleet.dev/desired/v1", this build reads "macfleet.dev/signed/v1"`},
		"newer":            {strings.Replace(string(good), "signed/v1", "signed/v2", 1), "signed/v2"},
		"trailing":         {string(good) + "{}", "malformed"},
		"unknown field":    {strings.Replace(string(good), `"signature"`, `"extra":1,"signature"`, 1), "unknown field"},
		"huge":             {string(good) + strings.Repeat(" ", 2*MaxSize), "larger"},
		"no counter":       {inside(func(i *Instruction) { i.Counter = 0 }), "counter is not positive"},
		"no document":      {inside(func(i *Instruction) { i.Desired = nil }), "desired is missing"},
		"another's":        {inside(func(i *Instruction) { i.Name = "ci-other" }), "desired.host is another Mac"},
		"another server's": {inside(func(i *Instruction) { i.ProviderID += "0" }), "desired.host is another Mac"},
		"another epoch's":  {inside(func(i *Instruction) { i.Epoch++ }), "desired.host is another Mac"},
		"another schema":   {inside(func(i *Instruction) { i.Desired.Schema = "x" }), `schema is "x"`},
		"invalid":          {inside(func(i *Instruction) { i.Desired.Host.User = "root" }), "host.user"},
		"no build":         {inside(func(i *Instruction) { i.Verb = VerbUpgrade }), "build is not a SHA-256"},
	} {
		_, err := DecodeSigned(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) && !(c.says == "ends early" && strings.Contains(err.Error(), "byte")) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: not one line, or a secret: %v", name, err)
		}
	}
	d.Host.Name = "Not A Name"
	var refused *FieldError
	if _, err := signerOf(d, time.Unix(1, 0)).Converge(d); !errors.As(err, &refused) {
		t.Errorf("an invalid document is signed: %v", err)
	}
}

// Counters grow whatever the clock does, and from one manager to the next. What a Mac
// says of its own is followed as far as a wrong clock can explain it.
func TestCounters(t *testing.T) {
	d := desired()
	now := time.UnixMicro(1_800_000_000_000_000)
	s := NewSigner(fleetKey, d.Host, func() time.Time { return now })
	next := func() int64 {
		t.Helper()
		data, err := s.Leave()
		if err != nil {
			t.Fatal(err)
		}
		return decodeSigned(t, data).Counter
	}
	if got := next(); got != now.UnixMicro() {
		t.Errorf("the first is %d, want the time", got)
	}
	before := next()
	now = now.Add(-time.Hour)
	if got := next(); got != before+1 {
		t.Errorf("after the clock went back it is %d, want %d", got, before+1)
	}
	ahead := now.Add(365 * 24 * time.Hour).UnixMicro()
	if !s.Follow(ahead) || next() != ahead+1 {
		t.Error("a Mac a year ahead is not followed")
	}
	for _, counter := range []int64{math.MaxInt64, math.MaxInt64 - 1, now.Add(maxAhead).UnixMicro() + 1, ahead, -1} {
		if s.Follow(counter) {
			t.Errorf("%d is followed", counter)
		}
	}
	// Another manager, with a right clock.
	now = now.Add(2 * 365 * 24 * time.Hour)
	s = NewSigner(fleetKey, d.Host, func() time.Time { return now })
	if got := next(); got <= ahead+1 {
		t.Errorf("the next manager's is %d", got)
	}
}

func TestNothingPrintsAnInstructionsSecrets(t *testing.T) {
	d := desired()
	s := signerOf(d, time.Unix(1_800_000_000, 0))
	data, err := s.Converge(d)
	if err != nil {
		t.Fatal(err)
	}
	r := decodeSigned(t, data)
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v", r.Instruction, r.Instruction, r.Instruction), fmt.Sprintf("%v %+v %#v", r, r, r),
		fmt.Sprintf("%v %+v %#v", s, s, s), r.LogValue().String(), s.LogValue().String(),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprint([]byte(fleetKey))) {
			t.Errorf("shows a secret: %s", text)
		}
	}
}
