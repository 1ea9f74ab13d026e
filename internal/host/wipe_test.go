package host_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func TestNextWipe(t *testing.T) {
	const settle = 5 * time.Second
	poolName := host.PoolName(prefix, serverID)
	server := func(name string, status cloud.Status) cloud.Server {
		return cloud.Server{ID: serverID, Name: name, Status: status, Delivered: true}
	}
	requested := func(h *host.Host) { released(h); h.Spec.Record.Wipe.RequestedAt = at(6) }
	observed := func(h *host.Host) { wiping(h); h.Spec.Record.Wipe.ObservedAt = at(20) }
	wipedBefore := func(h *host.Host) { released(h); h.Spec.Record.Wipe.ObservedAt = at(-20) }
	failedOnce := func(h *host.Host) { host.RecordRepeat(h, at(10).Time) }
	later := noon().Add(time.Hour)
	for name, row := range map[string]struct {
		host   *host.Host
		server cloud.Server
		now    time.Time
		want   host.WipeStep
	}{
		"no release":                           {pooled(claimed), server("m-1", "ready"), later, host.WipeNotAllowed},
		"no claim":                             {pooled(released, func(h *host.Host) { h.Spec.ClaimRef = nil }), server("m-1", "ready"), later, host.WipeNotAllowed},
		"release of another claim":             {pooled(released, func(h *host.Host) { h.Spec.ClaimRef.Token = "t-9" }), server("m-1", "ready"), later, host.WipeNotAllowed},
		"released":                             {pooled(released), server("m-1", "ready"), later, host.WipeRecord},
		"released, wiped for an owner before":  {pooled(wipedBefore), server("m-1", "ready"), later, host.WipeRecord},
		"released while busy otherwise":        {pooled(released), server("m-1", "rebooting"), later, host.WipeRecord},
		"released, reinstalling by hand":       {pooled(released), server("m-1", "reinstalling"), later, host.WipeRecord},
		"released before it was renamed":       {pooled(released), server(prefix+"1", "ready"), later, host.WipeRecord},
		"released, named by another":           {pooled(released), server("m-2", "ready"), later, host.WipeForeign},
		"requested, not asked":                 {pooled(requested), server("m-1", "ready"), later, host.WipeReinstall},
		"requested, being delivered":           {pooled(requested), server("m-1", "starting"), later, host.WipeWait},
		"requested, locked":                    {pooled(requested), server("m-1", "locked"), later, host.WipeWait},
		"requested, a word that nobody knows":  {pooled(requested), server("m-1", "levitating"), later, host.WipeReinstall},
		"requested, named by another":          {pooled(requested), server("m-2", "ready"), later, host.WipeForeign},
		"requested and seen":                   {pooled(requested), server("m-1", "reinstalling"), later, host.WipeStart},
		"requested, seen by an older reading":  {pooled(requested), server("m-1", "reinstalling"), at(6).Add(-1), host.WipeWait},
		"never renamed before the reinstall":   {pooled(requested), server("m-1", "error"), later, host.WipeReinstall},
		"started, our name":                    {pooled(wiping), server("m-1", "reinstalling"), later, host.WipeWait},
		"started, named":                       {pooled(wiping), server(poolName, "reinstalling"), later, host.WipeWait},
		"started, old pool name":               {pooled(wiping), server(prefix+"1", "reinstalling"), later, host.WipeWait},
		"started, named by another":            {pooled(wiping), server("m-2", "reinstalling"), later, host.WipeWait},
		"ready too soon to believe":            {pooled(wiping), server(poolName, "ready"), at(6).Add(settle - 1), host.WipeWait},
		"ready":                                {pooled(wiping), server(poolName, "ready"), later, host.WipeObserve},
		"ready, not named":                     {pooled(wiping), server("m-1", "ready"), later, host.WipeObserve},
		"ready, named by another":              {pooled(wiping), server("m-2", "ready"), later, host.WipeObserve},
		"not delivered":                        {pooled(wiping), cloud.Server{Name: poolName, Status: "ready"}, later, host.WipeWait},
		"in error":                             {pooled(wiping), server(poolName, "error"), later, host.WipeRepeat},
		"in error before it was seen to start": {pooled(wiping), server(poolName, "error"), at(5).Time, host.WipeWait},
		"in error, asked again, ready":         {pooled(wiping, failedOnce), server(poolName, "ready"), later, host.WipeReinstall},
		"in error again after it was given up": {pooled(wiping, func(h *host.Host) {
			host.RecordWipeAbandoned(h, infrav1.ReasonReinstallFailed, at(10).Time)
			host.RecordWipeStart(h, at(10).Time)
		}), server(poolName, "error"), later, host.WipeAbandon},
		"in error twice, given up, ready": {pooled(wiping, repeats(1), func(h *host.Host) { host.RecordWipeAbandoned(h, infrav1.ReasonWipeTimedOut, at(10).Time) }), server(poolName, "ready"), later, host.WipeReinstall},
		"in error twice":                  {pooled(wiping, repeats(1)), server(poolName, "error"), later, host.WipeAbandon},
		"observed, not named":             {pooled(observed), server("m-1", "ready"), later, host.WipeRename},
		"observed, old pool name":         {pooled(observed), server(prefix+"1", "ready"), later, host.WipeRename},
		"observed and named":              {pooled(observed), server(poolName, "ready"), later, host.WipeFree},
		"observed, named by another":      {pooled(observed), server("m-2", "ready"), later, host.WipeFree},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.NextWipe(row.host, host.WipeInput{Server: row.server, Began: row.now, Settle: settle}); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
		})
	}
}

func TestNextWipeOfAServerThatGoesBack(t *testing.T) {
	const settle = 5 * time.Second
	server := func(name string, status cloud.Status, scheduled bool) cloud.Server {
		return cloud.Server{ID: serverID, Name: name, Status: status, Delivered: true, DeletionScheduled: scheduled}
	}
	requested := func(h *host.Host) { terminated(h); h.Spec.Record.Wipe.RequestedAt = at(6) }
	started := func(h *host.Host) { requested(h); h.Spec.Record.Wipe.StartedAt = at(7) }
	observed := func(h *host.Host) { started(h); h.Spec.Record.Wipe.ObservedAt = at(20) }
	soon, late := at(10).Time, at(60).Time
	for name, row := range map[string]struct {
		host   *host.Host
		server cloud.Server
		now    time.Time
		want   host.WipeStep
	}{
		"released":                    {pooled(terminated), server("m-1", "ready", false), soon, host.WipeRecord},
		"released, named by another":  {pooled(terminated), server("m-2", "ready", false), soon, host.WipeForeign},
		"never shown":                 {pooled(terminated), server(prefix+"1", "ready", false), soon, host.WipeRecord},
		"requested":                   {pooled(requested), server("m-1", "ready", false), soon, host.WipeReinstall},
		"requested, seen":             {pooled(requested), server("m-1", "reinstalling", false), soon, host.WipeStart},
		"requested, cannot be wiped":  {pooled(requested), server("m-1", "error", false), late, host.WipeDelete},
		"timed out, named by another": {pooled(requested), server("m-2", "error", false), late, host.WipeForeign},
		"started":                     {pooled(started), server("m-1", "reinstalling", false), soon, host.WipeDelete},
		"started, named by another":   {pooled(started), server("m-2", "reinstalling", false), soon, host.WipeForeign},
		"scheduled by a person":       {pooled(terminated), server("m-1", "ready", true), soon, host.WipeRecord},
		"scheduled, not wiped yet":    {pooled(requested), server("m-1", "ready", true), soon, host.WipeReinstall},
		"scheduled, cannot be wiped":  {pooled(requested), server("m-1", "error", true), late, host.WipeWait},
		"scheduled":                   {pooled(started), server("m-1", "reinstalling", true), late, host.WipeWait},
		"scheduled and ready":         {pooled(started), server("m-1", "ready", true), late, host.WipeObserve},
		"scheduled, observed":         {pooled(observed), server("m-1", "ready", true), late, host.WipeWait},
		"the schedule is cancelled":   {pooled(observed), server("m-1", "ready", false), late, host.WipeDelete},
	} {
		t.Run(name, func(t *testing.T) {
			look := host.WipeInput{Server: row.server, Began: row.now, Settle: settle, Timeout: 45 * time.Minute, Pools: []string{"", prefix}}
			if got := host.NextWipe(row.host, look); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
		})
	}
}

func TestNextWipeAfterItsTimeout(t *testing.T) {
	const settle, timeout = 5 * time.Second, 45 * time.Minute
	poolName := host.PoolName(prefix, serverID)
	requested := func(h *host.Host) { released(h); h.Spec.Record.Wipe.RequestedAt = at(6) }
	for name, row := range map[string]struct {
		host   *host.Host
		server cloud.Server
		want   host.WipeStep
	}{
		"never started":                    {pooled(requested), cloud.Server{Name: "m-1", Status: "rebooting"}, host.WipeRepeat},
		"never ended":                      {pooled(wiping), cloud.Server{Name: poolName, Status: "reinstalling"}, host.WipeRepeat},
		"ended late":                       {pooled(wiping), cloud.Server{Name: poolName, Status: "ready", Delivered: true}, host.WipeObserve},
		"somebody else's by now":           {pooled(wiping), cloud.Server{Name: "m-2", Status: "error"}, host.WipeWait},
		"never started, somebody else's":   {pooled(requested), cloud.Server{Name: "m-2", Status: "error"}, host.WipeForeign},
		"again":                            {pooled(wiping, repeats(1)), cloud.Server{Name: poolName, Status: "reinstalling"}, host.WipeAbandon},
		"again, ended late":                {pooled(wiping, repeats(1)), cloud.Server{Name: poolName, Status: "ready", Delivered: true}, host.WipeObserve},
		"given up":                         {pooled(requested, repeats(2), quarantined(0)), cloud.Server{Name: poolName, Status: "error"}, host.WipeWait},
		"given up, it can be wiped again":  {pooled(requested, repeats(2), quarantined(0)), cloud.Server{Name: poolName, Status: "ready", Delivered: true}, host.WipeReinstall},
		"given up, the reinstall is seen":  {pooled(requested, repeats(2), quarantined(0)), cloud.Server{Name: poolName, Status: "reinstalling"}, host.WipeStart},
		"given up, ended late":             {pooled(wiping, repeats(2), quarantined(0)), cloud.Server{Name: poolName, Status: "ready", Delivered: true}, host.WipeObserve},
		"its quarantine is over":           {pooled(wiping, repeats(2), quarantined(40)), cloud.Server{Name: poolName, Status: "reinstalling"}, host.WipeRepeat},
		"a person took the quarantine off": {pooled(wiping, repeats(2)), cloud.Server{Name: poolName, Status: "reinstalling"}, host.WipeRepeat},
		"wiped, only not named":            {pooled(wiping, func(h *host.Host) { h.Spec.Record.Wipe.ObservedAt = at(7) }), cloud.Server{Name: "m-1", Status: "ready", Delivered: true}, host.WipeRename},
	} {
		t.Run(name, func(t *testing.T) {
			look := host.WipeInput{Server: row.server, Began: at(6).Add(timeout), Settle: settle, Timeout: timeout}
			if got := host.NextWipe(row.host, look); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
			if look.Timeout = 0; row.want == host.WipeRepeat || row.want == host.WipeAbandon {
				if got := host.NextWipe(row.host, look); got == row.want {
					t.Errorf("timed out without a timeout")
				}
			}
		})
	}
}

func TestAReinstallEndsInTheOwnersHands(t *testing.T) {
	h := pooled(wiping, func(h *host.Host) {
		h.Spec.Release.Policy = infrav1.Reinstall
		h.Spec.Record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: "t-1", Attempts: 8, RebootIssued: true, AttemptsAtReboot: 3}
		h.Spec.Record.HostKey = &infrav1.HostKey{SHA256: "SHA256:x"}
	})
	if got := host.FinalName(h); got != "m-1" {
		t.Errorf("named %s in the end", got)
	}
	host.RecordWiped(h, at(20).Time)
	host.Finish(h, at(20).Time)
	record := h.Spec.Record
	switch {
	case !bears(h, "t-1") || h.Spec.Release != nil:
		t.Errorf("spec %+v", h.Spec)
	case host.Clean(h) || !record.Wipe.RequiredSince.After(record.Wipe.ObservedAt.Time):
		t.Errorf("the owner uses the disk again: %+v", record.Wipe)
	case record.HostKey != nil || record.Wipe.RequestedAt != nil || record.Wipe.StartedAt != nil:
		t.Errorf("record %+v", record)
	case record.Bootstrap != (infrav1.BootstrapRecord{ClaimToken: "t-1", RebootIssued: true}):
		t.Errorf("bootstrap %+v", record.Bootstrap)
	}
}

func TestTheQuarantineOfALateWipeEndsWithIt(t *testing.T) {
	for _, reason := range []string{infrav1.ReasonWipeTimedOut, infrav1.ReasonReinstallFailed} {
		late := pooled(wiping, repeats(1))
		host.RecordWipeAbandoned(late, reason, time.Now())
		if !host.WipeAbandoned(late, noon()) || late.Spec.Quarantine.Reason != reason {
			t.Fatalf("spec %+v", late.Spec)
		}
		host.RecordWiped(late, at(90).Time)
		if late.Spec.Quarantine != nil || late.Spec.Record.Wipe.Repeats != 0 {
			t.Errorf("spec %+v", late.Spec)
		}
	}
	other := pooled(wiping, repeats(1), quarantined(0))
	host.RecordWipeAbandoned(other, infrav1.ReasonWipeTimedOut, time.Now())
	host.RecordWiped(other, at(90).Time)
	if q := other.Spec.Quarantine; q == nil || q.Reason != "disk errors" {
		t.Errorf("a person's quarantine became %+v", q)
	}
}

// A reinstall by hand that was seen before a claim says nothing of the disk after it: the
// release of that claim asks for a wipe of its own.
func TestAWipeBeforeAClaimIsNoneAfterIt(t *testing.T) {
	h := pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(-60) })
	host.RecordWipe(h, at(-5).Time)
	host.RecordWipeStart(h, at(-4).Time)
	host.Claim(h, infrav1.ClaimReference{Namespace: "fleet", Name: "m-1", Token: "t-1"}, noon())
	h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, PoolPrefix: prefix, RequestedAt: *at(30)}
	ready := cloud.Server{ID: serverID, Name: "m-1", Status: cloud.StatusReady, Delivered: true}
	if got := host.NextWipe(h, host.WipeInput{Server: ready, Began: at(60).Time}); got != host.WipeRecord {
		t.Errorf("step %s, want %s", got, host.WipeRecord)
	}
}

// What was let go with its disk is like any other of the pool once that is wiped.
func TestAWipeEndsADetachment(t *testing.T) {
	h := pooled(claimed)
	host.Detach(h, at(5).Time)
	host.RecordWipeStart(h, at(6).Time)
	host.RecordWiped(h, at(20).Time)
	if host.NodeMustGo(h) || !host.Clean(h) || h.Spec.Record.DetachedAt != nil {
		t.Errorf("record %+v", h.Spec.Record)
	}
}

// A deletion that the vendor is to make later has not been made.
func TestDeleted(t *testing.T) {
	h := pooled(terminated)
	if host.Deleted(h) {
		t.Error("deleted, though nobody asked for it")
	}
	host.RecordReturn(h, at(9).Time)
	if !host.Deleted(h) {
		t.Error("not deleted, though the vendor said so")
	}
	scheduled(h)
	if host.Deleted(h) {
		t.Error("deleted, though that is due later")
	}
}

func TestNodeMustGo(t *testing.T) {
	detached := func(h *host.Host) { h.Spec.Record.DetachedAt = at(5) }
	observed := func(h *host.Host) { wiping(h); h.Spec.Record.Wipe.ObservedAt = at(20) }
	for name, row := range map[string]struct {
		host *host.Host
		want bool
	}{
		"free":                          {pooled(), false},
		"claimed":                       {pooled(claimed), false},
		"released":                      {pooled(released), true},
		"released, wiped once before":   {pooled(released, func(h *host.Host) { h.Spec.Record.Wipe.ObservedAt = at(-5) }), true},
		"a release of another claim":    {pooled(released, func(h *host.Host) { h.Spec.ClaimRef.Token = "t-9" }), false},
		"wiping":                        {pooled(wiping), true},
		"wiped, not named":              {pooled(observed), false},
		"given back":                    {pooled(terminated, scheduled), true},
		"detached":                      {pooled(detached), true},
		"detached, and claimed since":   {pooled(claimed, detached), false},
		"handed over":                   {pooled(claimed, handedOver), false},
		"detached and then handed over": {pooled(detached, handedOver), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.NodeMustGo(row.host); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestNextManualWipe(t *testing.T) {
	const settle = 5 * time.Second
	dirty := func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(0) }
	started := func(h *host.Host) {
		dirty(h)
		h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = at(6), at(6)
	}
	later := noon().Add(time.Hour)
	for name, row := range map[string]struct {
		host   *host.Host
		status cloud.Status
		began  time.Time
		want   host.WipeStep
	}{
		"clean":                   {pooled(), "reinstalling", later, host.WipeNotAllowed},
		"claimed":                 {pooled(claimed), "reinstalling", later, host.WipeNotAllowed},
		"released":                {pooled(wiping), "ready", later, host.WipeNotAllowed},
		"ready, never seen":       {pooled(dirty), "ready", later, host.WipeWait},
		"rebooting":               {pooled(dirty), "rebooting", later, host.WipeWait},
		"reinstalling":            {pooled(dirty), "reinstalling", later, host.WipeStart},
		"reinstalling, too early": {pooled(dirty), "reinstalling", noon(), host.WipeWait},
		"seen, still so":          {pooled(started), "reinstalling", later, host.WipeWait},
		"seen, in error":          {pooled(started), "error", later, host.WipeForget},
		"seen, ready":             {pooled(started), "ready", later, host.WipeObserve},
		"seen, ready too early":   {pooled(started), "ready", at(6).Add(host.ListLag - 1), host.WipeWait},
		"seen, ready late enough": {pooled(started), "ready", at(6).Add(host.ListLag), host.WipeObserve},
	} {
		t.Run(name, func(t *testing.T) {
			server := cloud.Server{ID: serverID, Name: prefix + "1", Status: row.status, Delivered: true}
			if got := host.NextManualWipe(row.host, host.WipeInput{Server: server, Began: row.began, Settle: settle}); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
		})
	}
}

func TestTheRecordOfAWipeIsOrderedWhateverTheClocks(t *testing.T) {
	h := pooled(released, func(h *host.Host) {
		h.Spec.Record.InstallEpoch = 3
		h.Spec.Record.HostKey = &infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:x", Epoch: 3}
		h.Spec.Record.PasswordAttempts = []infrav1.PasswordAttempt{{Epoch: 3, Digest: "d", At: *at(1)}}
		h.Spec.Record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: "t-1", Attempts: 2}
		h.Spec.Record.HandedOverAt = at(1)
	})
	behind := noon().Add(-time.Hour) // this manager's clock is behind the claim's
	host.RecordWipe(h, behind)
	host.RecordWipeStart(h, behind)
	host.RecordWiped(h, behind)
	wipe := h.Spec.Record.Wipe
	for _, pair := range [][2]time.Time{
		{wipe.RequiredSince.Time, wipe.RequestedAt.Time}, {wipe.RequestedAt.Time, wipe.StartedAt.Time}, {wipe.StartedAt.Time, wipe.ObservedAt.Time},
	} {
		if !pair[1].After(pair[0]) {
			t.Errorf("%v is not after %v", pair[1], pair[0])
		}
	}
	if host.Clean(h) {
		t.Error("clean before it is free")
	}
	host.Free(h)
	if !host.Clean(h) {
		t.Error("not clean after its wipe")
	}
	want := infrav1.HostRecord{InstallEpoch: 4, Wipe: infrav1.WipeRecord{Generation: 1, RequiredSince: wipe.RequiredSince, ObservedAt: wipe.ObservedAt}}
	if diff := cmp.Diff(want, h.Spec.Record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if h.Spec.ClaimRef != nil || h.Spec.Release != nil {
		t.Error("still claimed")
	}
}

func TestGoneIsProvedByTwoListsNeverByAnEmptyOne(t *testing.T) {
	for name, row := range map[string]struct {
		expected, missing, listed int
		after                     time.Duration
		suspicious, gone          bool
	}{
		"first miss":              {10, 1, 9, 0, false, false},
		"too soon":                {10, 1, 9, 29 * time.Second, false, false},
		"two lists":               {10, 1, 9, 30 * time.Second, false, true},
		"two at once":             {4, 2, 2, 30 * time.Second, false, true},
		"a fifth of many":         {100, 20, 80, 30 * time.Second, false, true},
		"more than a fifth":       {100, 21, 79, 30 * time.Second, true, false},
		"more than a fifth, long": {100, 21, 79, 10 * time.Minute, true, true},
		"all of one":              {1, 1, 0, time.Hour, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			suspicious := host.Suspicious(row.expected, row.missing, row.listed)
			gone := host.ProvedGone(noon(), noon().Add(row.after), suspicious, row.listed, false)
			if suspicious != row.suspicious || gone != row.gone {
				t.Errorf("suspicious %v, gone %v; want %v, %v", suspicious, gone, row.suspicious, row.gone)
			}
		})
	}
	if host.ProvedGone(time.Time{}, noon(), false, 5, true) {
		t.Error("gone although a newer reading showed the server")
	}
	if host.ProvedGone(noon(), noon().Add(10*time.Minute-1), true, 0, true) || !host.ProvedGone(noon(), noon().Add(10*time.Minute), true, 0, true) {
		t.Error("an empty list is believed after ten minutes, when the credentials work")
	}
}

// A quarantine of another kind that ran out in the meantime keeps nobody back: the
// host is left to a person all the same, after one repeat.
func TestAWipeThatNeverEndsIsAbandonedThoughAnOldQuarantineIsOver(t *testing.T) {
	h := pooled(released, quarantined(1))
	now, asked := at(2).Time, 0
	host.RecordWipe(h, now)
	for range 20 {
		now = now.Add(46 * time.Minute)
		look := host.WipeInput{Server: cloud.Server{Name: "m-1", Status: cloud.StatusError}, Began: now, Timeout: 45 * time.Minute}
		switch host.NextWipe(h, look) {
		case host.WipeRepeat:
			host.RecordRepeat(h, now)
			asked++
		case host.WipeAbandon:
			host.RecordWipeAbandoned(h, infrav1.ReasonWipeTimedOut, now)
		}
	}
	if asked != 1 || !host.WipeAbandoned(h, now) {
		t.Errorf("asked again %d times in 15 hours, given up %t", asked, host.WipeAbandoned(h, now))
	}
}

// The times of a wipe may be by a clock that is ahead or behind: what counts is when
// this manager learned of them, and that the reading is newer.
func TestAWipeIsJudgedByOneClock(t *testing.T) {
	const settle = 5 * time.Second
	asked := released
	begun := func(h *host.Host) {
		released(h)
		h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = at(1), at(2)
	}
	requested := func(h *host.Host) { asked(h); h.Spec.Record.Wipe.RequestedAt = at(1) }
	dirty := func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(0) }
	byHand := func(h *host.Host) { dirty(h); h.Spec.Record.Wipe.StartedAt = at(2) }
	decide := map[bool]func(*host.Host, host.WipeInput) host.WipeStep{true: host.NextWipe, false: host.NextManualWipe}
	for name, row := range map[string]struct {
		is       func(*host.Host)
		released bool
		status   cloud.Status
		after    time.Duration
		want     host.WipeStep
	}{
		"asked for, and it began before":     {requested, true, "reinstalling", -1, host.WipeWait},
		"asked for, and it begins":           {requested, true, "reinstalling", 0, host.WipeStart},
		"begun, and ready too early":         {begun, true, "ready", settle - 1, host.WipeWait},
		"begun, and ready late enough":       {begun, true, "ready", settle, host.WipeObserve},
		"begun, and in error":                {begun, true, "error", 0, host.WipeRepeat},
		"by hand, from before it was let go": {dirty, false, "reinstalling", 0, host.WipeWait},
		"by hand":                            {dirty, false, "reinstalling", 1, host.WipeStart},
		"by hand, ready too early":           {byHand, false, "ready", host.ListLag - 1, host.WipeWait},
		"by hand, ready late enough":         {byHand, false, "ready", host.ListLag, host.WipeObserve},
		"by hand, in error":                  {byHand, false, "error", 0, host.WipeForget},
	} {
		for clock, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
			t.Run(name+", by a clock "+clock, func(t *testing.T) {
				known := noon().Add(off)
				h := pooled(row.is)
				server := cloud.Server{ID: serverID, Name: host.PoolName(prefix, serverID), Status: row.status, Delivered: true}
				look := host.WipeInput{
					Server: server, Began: known.Add(row.after), Settle: settle, Pools: []string{prefix},
					FirstSeen: host.FirstSeen{Required: known, Requested: known, Started: known},
				}
				if got := decide[row.released](h, look); got != row.want {
					t.Errorf("step %s, want %s", got, row.want)
				}
			})
		}
	}
}
