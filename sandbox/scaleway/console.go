package scaleway

import "time"

// What a person does in the vendor's console, without the API, its journal or
// its refusals. Each reports whether the server exists.

// Rename gives a server another name.
func (v *Vendor) Rename(serverID, name string) bool {
	return v.inConsole(serverID, func(s *server) {
		v.applyUpdate(s, updateRequest{Name: &name})
	})
}

// Remove deletes a server, whatever its floor.
func (v *Vendor) Remove(serverID string) bool {
	return v.inConsole(serverID, func(s *server) { v.remove(s, v.now()) })
}

// ScheduleDeletion has a server removed at its floor, or cancels that.
func (v *Vendor) ScheduleDeletion(serverID string, scheduled bool) bool {
	return v.inConsole(serverID, func(s *server) {
		v.applyUpdate(s, updateRequest{ScheduleDeletion: &scheduled})
	})
}

// SetFloor moves the time from which a server can be deleted, as the vendor's
// support may.
func (v *Vendor) SetFloor(serverID string, deletable time.Time) bool {
	return v.inConsole(serverID, func(s *server) {
		now := v.now()
		v.remember(s, now)
		s.deletable, s.updated = deletable, now
		v.poke()
	})
}

// SetStatus forces a server into a status, dropping any transition under way. It
// may be one that the simulator does not reach by itself, or that no client knows.
func (v *Vendor) SetStatus(serverID string, status Status) bool {
	return v.inConsole(serverID, func(s *server) {
		s.pending = nil
		v.enter(s, status, v.now())
	})
}

func (v *Vendor) inConsole(serverID string, act func(*server)) bool {
	defer v.catchUp()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advance()
	s := v.find(serverID)
	if s == nil {
		return false
	}
	act(s)
	return true
}
