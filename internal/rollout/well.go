package rollout

import "time"

// well: the Mac's Node is Ready, and the change left room on its disk.
func (p *plan) well(m Machine) bool { return !m.ReadySince.IsZero() && !p.filled(m) }

// filled reports a Mac at the revision whose disk ran short between the beginning of its turn
// and the end of its soak: a quota that is too large lets it take no Pods, although its Node is
// Ready. What ran short before or later was filled by images and guests.
func (p *plan) filled(m Machine) bool {
	return !m.ShortSince.IsZero() && !m.ShortSince.Before(m.PermitAt) && m.ShortSince.Before(p.provedAt(m).Add(p.soak))
}

// settledAt is when a Mac at the revision has been well for long enough; false if
// it is not well, or not as it should be.
func (p *plan) settledAt(m Machine) (time.Time, bool) {
	if !p.at(m) || m.Drifted || !p.well(m) || m.Lost > 0 {
		return time.Time{}, false
	}
	proved := p.provedAt(m)
	if m.ReadySince.After(proved) {
		return m.ReadySince.Add(p.soak), true
	}
	return proved.Add(p.soak), true
}

// provedAt is from when a soak is measured: while it may not be over by another manager's
// clock, which may have written ProvedAt, that is when this manager saw the proof.
func (p *plan) provedAt(m Machine) time.Time {
	if m.ProvedSeen.IsZero() || p.Now.After(m.ProvedAt.Add(p.soak+clocksDiffer)) {
		return m.ProvedAt
	}
	return m.ProvedSeen
}

func (p *plan) settled(m Machine) bool {
	at, well := p.settledAt(m)
	return well && !p.Now.Before(at)
}

// failed reports a Mac on which the revision did not work: the push failed, or the
// Mac was not well afterwards.
func (p *plan) failed(m Machine) (time.Time, bool) {
	if m.Tried == p.Revision && m.Failures > 0 && !p.at(m) {
		return m.FailedAt, true
	}
	if !p.at(m) || m.PermitAt.IsZero() || m.ProvedAt.Before(m.PermitAt) || m.ProvedAt.After(m.PermitAt.Add(permitLimit)) {
		return time.Time{}, false // it was not changed by a turn, but restarted long after its last one
	}
	limit := m.ProvedAt.Add(settleLimit + p.soak)
	switch {
	case m.Lost > 0:
		return m.ProvedAt, true
	case !p.well(m) && !p.Now.Before(limit):
		return limit, true
	case !p.well(m):
		p.again(limit)
	}
	return time.Time{}, false
}

// afterwards says, of a Mac that failed, what it was not after the change, where that is no
// step's failure, which the condition UpToDate tells.
func (p *plan) afterwards(m Machine) string {
	switch {
	case !p.at(m):
		return ""
	case m.Lost > 0:
		return " (guests died)"
	case m.ReadySince.IsZero():
		return " (its Node is not Ready)"
	case p.filled(m):
		return " (its disk is short)"
	}
	return ""
}
