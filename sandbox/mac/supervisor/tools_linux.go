package supervisor

import (
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// tool does the work of a command for a shim.
func (s *shim) tool(c wire.ToolCall) wire.Answer {
	p := s.p
	switch c.Name {
	case "defaults":
		return p.prefs.Defaults(s.who.UID, c.Args)
	}
	return wire.Answer{Error: "no tool " + c.Name}
}
