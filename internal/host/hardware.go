package host

import (
	"fmt"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// MaxIdentity is the API's limit for serial numbers and platform UUIDs.
const MaxIdentity = 64

// OtherHardwareError means that another Mac answers than the one that is known.
type OtherHardwareError struct {
	Known, Seen infrav1.HostHardware
	Accepted    string // spec.acceptSerial
}

func (e *OtherHardwareError) Error() string {
	awaited := ""
	if e.Accepted != "" {
		awaited = fmt.Sprintf(", while spec.acceptSerial is %q", e.Accepted)
	}
	if e.Seen.Serial == e.Known.Serial {
		return fmt.Sprintf("its platform UUID is %s, and was %q%s", shown(e.Seen.PlatformUUID), e.Known.PlatformUUID, awaited)
	}
	return fmt.Sprintf("its serial number is %s, and was %q%s", shown(e.Seen.Serial), e.Known.Serial, awaited)
}

func shown(identity string) string {
	if identity == "" {
		return "not shown"
	}
	return fmt.Sprintf("%.64q", identity)
}

// Recognize compares the hardware that answers with the one that the Host's record
// has kept since the first contact of all. It returns what the record is to hold: a
// part that was not known is learned, and the Mac whose serial number is in
// spec.acceptSerial takes the place of the known one. What is known and not shown, or
// shown otherwise, is *OtherHardwareError.
func Recognize(h *Host, seen infrav1.HostHardware) (*infrav1.HostHardware, error) {
	seen = infrav1.HostHardware{Serial: identity(seen.Serial), PlatformUUID: identity(seen.PlatformUUID)}
	known := h.Spec.Record.Hardware
	accepted := h.Spec.AcceptSerial != "" && h.Spec.AcceptSerial == seen.Serial
	switch {
	case seen == infrav1.HostHardware{} && known == nil:
		return nil, nil
	case known == nil, accepted:
		return &seen, nil
	case differs(known.Serial, seen.Serial), differs(known.PlatformUUID, seen.PlatformUUID):
		return nil, &OtherHardwareError{Known: *known, Seen: seen, Accepted: h.Spec.AcceptSerial}
	}
	return &seen, nil
}

// differs: what was never known differs from nothing.
func differs(known, seen string) bool { return known != "" && !strings.EqualFold(known, seen) }

// identity is empty for what the API would refuse.
func identity(text string) string {
	if len(text) > MaxIdentity {
		return ""
	}
	return text
}
