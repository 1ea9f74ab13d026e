package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// failing is a claimed host after a number of failed attempts.
func failing(attempts int32, changes ...func(*host.Host)) *host.Host {
	return pooled(append([]func(*host.Host){claimed, func(h *host.Host) {
		h.Spec.Record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: "t-1", Attempts: attempts}
	}}, changes...)...)
}

func rebooted(h *host.Host) { h.Spec.Record.Bootstrap.RebootIssued = true }

// rebootedAfter is a host whose reboot the vendor took after so many failures.
func rebootedAfter(attempts int32) func(*host.Host) {
	return func(h *host.Host) {
		h.Spec.Record.Bootstrap.RebootIssued, h.Spec.Record.Bootstrap.AttemptsAtReboot = true, attempts
	}
}

func ordered(h *host.Host) { h.Spec.Record.Ordered = true }

func barred(until *metav1.Time) func(*host.Host) {
	return func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "often", Until: until} }
}

// recoveryRow is one decision of the ladder, and a part of why.
type recoveryRow struct {
	host *host.Host
	in   host.RecoveryInput
	want host.Recovery
	says string
}

func checkRecoveries(t *testing.T, rows map[string]recoveryRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got, why := host.NextRecovery(row.host, row.in)
			if got != row.want || !strings.Contains(why, row.says) {
				t.Errorf("%s (%s), want %s (%s)", got, why, row.want, row.says)
			}
		})
	}
}

// onLadder is the requirement's ladder after a failure that tries again, changed.
func onLadder(changes ...func(*host.RecoveryInput)) host.RecoveryInput {
	in := host.RecoveryInput{Class: host.ClassRetry, RebootAfter: 3, MaxAttempts: 8, PoolPrefix: prefix, Now: noon()}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func TestRequirement003_NextRecovery(t *testing.T) {
	past, later := metav1.NewTime(noon().Add(-1)), metav1.NewTime(noon().Add(time.Hour))
	ladder := onLadder()
	noReboot := onLadder(func(in *host.RecoveryInput) { in.RebootAfter = 0 })
	noReturn := onLadder(func(in *host.RecoveryInput) { in.MaxAttempts = 0 })
	off := onLadder(func(in *host.RecoveryInput) { in.RebootAfter, in.MaxAttempts = 0, 0 })
	legacy := onLadder(func(in *host.RecoveryInput) { in.PoolPrefix = "" })
	checkRecoveries(t, map[string]recoveryRow{
		"first failure":                     {failing(1), ladder, host.RecoverRetry, ""},
		"just before the reboot":            {failing(2), ladder, host.RecoverRetry, ""},
		"reboot at the threshold":           {failing(3), ladder, host.RecoverReboot, "3 attempts"},
		"reboot past a missed threshold":    {failing(5), ladder, host.RecoverReboot, "5 attempts"},
		"one reboot for a claim":            {failing(5, rebooted), ladder, host.RecoverRetry, ""},
		"a reboot is pending":               {failing(3, func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "x"} }), ladder, host.RecoverRetry, ""},
		"reboots are off":                   {failing(3), noReboot, host.RecoverRetry, ""},
		"back to the pool":                  {failing(8, rebooted), ladder, host.RecoverReturn, "8 attempts"},
		"back to the pool after a reboot":   {failing(8, rebootedAfter(3)), ladder, host.RecoverReturn, "8 attempts"},
		"a reboot that was held back":       {failing(8), ladder, host.RecoverReboot, "8 attempts"},
		"once that reboot was made":         {failing(9, rebootedAfter(8)), ladder, host.RecoverRetry, ""},
		"just before its attempts are over": {failing(12, rebootedAfter(8)), ladder, host.RecoverRetry, ""},
		"once they are":                     {failing(13, rebootedAfter(8)), ladder, host.RecoverReturn, "13 attempts"},
		"the vendor never takes it":         {failing(8, func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "x"} }), ladder, host.RecoverReturn, "8 attempts"},
		"back to the pool, thresholds met":  {failing(3), onLadder(func(in *host.RecoveryInput) { in.MaxAttempts = 3 }), host.RecoverReturn, ""},
		"returning is off":                  {failing(80, rebooted), noReturn, host.RecoverRetry, ""},
		"all is off":                        {failing(80), off, host.RecoverRetry, ""},
		"legacy, without a pool":            {failing(8, rebooted), legacy, host.RecoverStay, "no pool prefix"},
		"legacy is rebooted":                {failing(3), legacy, host.RecoverReboot, ""},
		"ordered":                           {failing(8, ordered, rebooted), ladder, host.RecoverReinstall, ""},
		"ordered, needs no pool":            {failing(8, ordered, rebooted), legacy, host.RecoverReinstall, ""},
		"ordered and quarantined":           {failing(8, ordered, rebooted, barred(&later)), ladder, host.RecoverStay, "often"},
		"ordered, quarantine over":          {failing(8, ordered, rebooted, barred(&past)), ladder, host.RecoverReinstall, ""},
		"quarantine does not hold a return": {failing(8, rebooted, barred(nil)), ladder, host.RecoverReturn, ""},
		"in maintenance":                    {failing(8, func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }), ladder, host.RecoverStay, "maintenance"},
		"handed over":                       {failing(8, func(h *host.Host) { h.Spec.Record.HandedOverAt = at(0) }), ladder, host.RecoverStay, "another management cluster"},
	})
}

func TestRequirement003_NextRecoveryByClass(t *testing.T) {
	class := func(c host.FailureClass) host.RecoveryInput {
		return onLadder(func(in *host.RecoveryInput) { in.Class = c })
	}
	dirtyOff := onLadder(func(in *host.RecoveryInput) { in.Class, in.MaxAttempts = host.ClassReinstall, 0 })
	checkRecoveries(t, map[string]recoveryRow{
		"wait climbs nothing":          {failing(80), class(host.ClassWait), host.RecoverRetry, ""},
		"a bug of ours climbs nothing": {failing(80), class(host.ClassBug), host.RecoverRetry, ""},
		"human stops at once":          {failing(80), class(host.ClassHuman), host.RecoverRetry, ""},
		"locked: reboot at once":       {failing(1), class(host.ClassReboot), host.RecoverReboot, ""},
		"locked, rebooted before":      {failing(2, rebooted), class(host.ClassReboot), host.RecoverRetry, ""},
		"locked, reboots are off":      {failing(2), onLadder(func(in *host.RecoveryInput) { in.Class, in.RebootAfter = host.ClassReboot, 0 }), host.RecoverRetry, ""},
		"dirty: wiped at once":         {failing(1), class(host.ClassReinstall), host.RecoverReturn, "only a wipe"},
		"dirty and ordered":            {failing(1, ordered), class(host.ClassReinstall), host.RecoverReinstall, ""},
		"dirty, returning is off":      {failing(1), dirtyOff, host.RecoverStay, "turned off"},
	})
}

// Three refused dials in half a minute must not cut a Mac's power.
func TestRecoveryTakesTimeAsWellAsFailures(t *testing.T) {
	since := func(d time.Duration) func(*host.Host) {
		return func(h *host.Host) { h.Spec.Record.Bootstrap.FirstFailedAt = &metav1.Time{Time: noon().Add(-d)} }
	}
	patient := func(class host.FailureClass) host.RecoveryInput {
		return onLadder(func(in *host.RecoveryInput) { in.Class, in.LeastTime = class, 5*time.Minute })
	}
	checkRecoveries(t, map[string]recoveryRow{
		"three failures in half a minute": {failing(3, since(30*time.Second)), patient(host.ClassRetry), host.RecoverRetry, ""},
		"three failures in five minutes":  {failing(3, since(5*time.Minute)), patient(host.ClassRetry), host.RecoverReboot, ""},
		"eight failures in a minute":      {failing(8, rebooted, since(time.Minute)), patient(host.ClassRetry), host.RecoverRetry, ""},
		"eight failures in an hour":       {failing(8, rebooted, since(time.Hour)), patient(host.ClassRetry), host.RecoverReturn, ""},
		"nobody knows since when":         {failing(8), patient(host.ClassRetry), host.RecoverRetry, ""},
		"a dirty disk is one at once":     {failing(1, since(0)), patient(host.ClassReinstall), host.RecoverReturn, ""},
		"a locked account is one at once": {failing(1, since(0)), patient(host.ClassReboot), host.RecoverReboot, ""},
		"a person is needed all the same": {failing(8, since(time.Hour)), patient(host.ClassHuman), host.RecoverRetry, ""},
		"no least time":                   {failing(3), onLadder(), host.RecoverReboot, ""},
	})
}

// Guests run on a Mac whose Node is Ready, also where its bootstrap is not known to be over.
func TestAReadyNodeIsNeitherRebootedNorWiped(t *testing.T) {
	ready := func(class host.FailureClass) host.RecoveryInput {
		return onLadder(func(in *host.RecoveryInput) { in.Class, in.ReadyNode = class, true })
	}
	checkRecoveries(t, map[string]recoveryRow{
		"one failure":            {failing(1), ready(host.ClassRetry), host.RecoverRetry, ""},
		"two failures":           {failing(2), ready(host.ClassRetry), host.RecoverRetry, ""},
		"three failures":         {failing(3), ready(host.ClassRetry), host.RecoverStay, "Node is Ready"},
		"seven, rebooted before": {failing(7, rebootedAfter(3)), ready(host.ClassRetry), host.RecoverRetry, ""},
		"eight failures":         {failing(8, rebooted), ready(host.ClassRetry), host.RecoverStay, "Node is Ready"},
		"an ordered Mac":         {failing(8, ordered), ready(host.ClassRetry), host.RecoverStay, "Node is Ready"},
		"a locked account":       {failing(1), ready(host.ClassReboot), host.RecoverStay, "Node is Ready"},
		"a dirty disk":           {failing(1), ready(host.ClassReinstall), host.RecoverStay, "Node is Ready"},
		"a person":               {failing(8), ready(host.ClassHuman), host.RecoverRetry, ""},
	})
}

// Whoever reads that no tier is left deletes the Machine, which wipes the Mac: nothing says so
// of a failure that would have brought no tier on any other Mac either.
func TestNothingIsForbiddenBeforeATierIsDue(t *testing.T) {
	since := func(d time.Duration) func(*host.Host) {
		return func(h *host.Host) { h.Spec.Record.Bootstrap.FirstFailedAt = &metav1.Time{Time: noon().Add(-d)} }
	}
	for name, spared := range map[string]struct {
		change func(*host.Host, *host.RecoveryInput)
		says   string
	}{
		"its Node is Ready": {func(_ *host.Host, in *host.RecoveryInput) { in.ReadyNode = true }, "Node is Ready"},
		"taken over":        {func(_ *host.Host, in *host.RecoveryInput) { in.TakeOver = true }, "taken over"},
		"in maintenance":    {func(h *host.Host, _ *host.RecoveryInput) { h.Spec.Maintenance = &infrav1.Maintenance{} }, "maintenance"},
		"handed over":       {func(h *host.Host, _ *host.RecoveryInput) { h.Spec.Record.HandedOverAt = at(0) }, "another management cluster"},
	} {
		ladder := onLadder(func(in *host.RecoveryInput) { in.LeastTime = 5 * time.Minute })
		off := onLadder(func(in *host.RecoveryInput) { in.RebootAfter, in.MaxAttempts = 0, 0 })
		noReturn := onLadder(func(in *host.RecoveryInput) { in.Class, in.MaxAttempts = host.ClassReinstall, 0 })
		rows := map[string]recoveryRow{
			"the first failure":       {failing(1, since(0)), ladder, host.RecoverRetry, ""},
			"three in half a minute":  {failing(3, since(30*time.Second)), ladder, host.RecoverRetry, ""},
			"eight in a minute":       {failing(8, rebooted, since(time.Minute)), ladder, host.RecoverRetry, ""},
			"all is off":              {failing(80), off, host.RecoverRetry, ""},
			"three in five minutes":   {failing(3, since(5*time.Minute)), ladder, host.RecoverStay, spared.says},
			"eight in an hour":        {failing(8, rebooted, since(time.Hour)), ladder, host.RecoverStay, spared.says},
			"a dirty disk, at once":   {failing(1, since(0)), onLadder(func(in *host.RecoveryInput) { in.Class = host.ClassReinstall }), host.RecoverStay, spared.says},
			"a dirty disk, wipes off": {failing(1), noReturn, host.RecoverStay, spared.says},
		}
		for row, r := range rows {
			spared.change(r.host, &r.in)
			rows[row] = r
		}
		t.Run(name, func(t *testing.T) { checkRecoveries(t, rows) })
	}
}

func TestTheFirstFailureOfAClaimIsRemembered(t *testing.T) {
	h := failing(0)
	host.CountFailure(h, noon())
	host.CountFailure(h, noon().Add(time.Hour))
	if record := h.Spec.Record.Bootstrap; record.Attempts != 2 || !record.FirstFailedAt.Time.Equal(noon()) {
		t.Errorf("record = %+v, want two attempts since %s", record, noon())
	}
	host.ReleaseUnhealthy(h, infrav1.Release{Token: "t-1", Policy: infrav1.Reinstall}, "x", noon())
	if record := h.Spec.Record.Bootstrap; record.Attempts != 0 || record.FirstFailedAt != nil {
		t.Errorf("record = %+v: the claim begins anew on a wiped disk", record)
	}
}

func TestRebooting(t *testing.T) {
	asked := func(force bool) func(*host.Host) {
		return func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "x", Force: force} }
	}
	recovers := func(ago time.Duration) func(*host.Host) {
		return func(h *host.Host) { host.AskForReboot(h, "t-1", "x", noon().Add(-ago)) }
	}
	taken := func(ago time.Duration) func(*host.Host) {
		return func(h *host.Host) {
			h.Status.LastReboot = infrav1.RebootStatus{ID: "x", At: metav1.NewMicroTime(noon().Add(-ago))}
		}
	}
	for name, row := range map[string]struct {
		host        *host.Host
		provisioned bool
		want        bool
		until       time.Time
	}{
		"nothing asked":                   {failing(1), false, false, time.Time{}},
		"asked":                           {failing(1, asked(true)), false, true, time.Time{}},
		"asked politely, not a Node yet":  {failing(1, asked(false)), false, true, time.Time{}},
		"asked politely, Pods may run":    {failing(1, asked(false)), true, false, time.Time{}},
		"forced on a Node":                {failing(1, asked(true)), true, true, time.Time{}},
		"a person's, for long":            {failing(1, recovers(time.Hour), asked(true)), false, true, time.Time{}},
		"recovery's, just asked":          {failing(3, recovers(time.Minute)), false, true, noon().Add(9 * time.Minute)},
		"recovery's, that nobody takes":   {failing(3, recovers(10*time.Minute)), false, false, time.Time{}},
		"shown since it was taken":        {failing(3, taken(9*time.Minute), status(cloud.StatusRebooting)), false, true, noon().Add(time.Minute)},
		"shown without an end":            {failing(3, taken(10*time.Minute), status(cloud.StatusRebooting)), false, false, time.Time{}},
		"shown without an end, of a Node": {failing(3, taken(10*time.Minute), status(cloud.StatusRebooting)), true, true, time.Time{}},
		"the vendor shows it":             {failing(1, status(cloud.StatusRebooting)), false, true, time.Time{}},
		"taken, not shown yet":            {failing(1, taken(59*time.Second)), false, true, noon().Add(time.Second)},
		"taken, and shown ready for long": {failing(1, taken(time.Minute)), false, false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			is, until := host.Rebooting(row.host, row.provisioned, noon())
			if is != row.want || (is && !until.Equal(row.until)) {
				t.Errorf("%t until %s, want %t until %s", is, until, row.want, row.until)
			}
		})
	}
}

func TestAnUnhealthyHostIsReleased(t *testing.T) {
	release := infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, PoolPrefix: prefix}
	h := failing(8, rebooted, func(h *host.Host) {
		h.Spec.Reboot = &infrav1.RebootRequest{ID: host.BootstrapRebootID("t-1")}
	})
	host.ReleaseUnhealthy(h, release, "BootstrapFailed at dial", noon())
	if !host.WipeAllowed(h) || h.Spec.Release.Origin != infrav1.OriginRecovery || !h.Spec.Release.RequestedAt.Time.Equal(noon()) {
		t.Errorf("release %+v", h.Spec.Release)
	}
	record := h.Spec.Record
	if record.DisturbedAt == nil || record.Bootstrap.Attempts != 0 || !record.Bootstrap.RebootIssued || h.Spec.Reboot != nil {
		t.Errorf("record %+v, reboot %+v; want it counted as disturbed, and the claim's reboot spent", record, h.Spec.Reboot)
	}
	if f := h.Spec.Failures; f.Count != 1 || len(f.Recent) != 1 || f.Recent[0].Reason != "BootstrapFailed at dial" || h.Spec.Quarantine != nil {
		t.Errorf("failures %+v, quarantine %+v", f, h.Spec.Quarantine)
	}
	other := failing(8, func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "a person's"} })
	if host.ReleaseUnhealthy(other, release, "x", noon()); other.Spec.Reboot == nil {
		t.Error("a person's reboot was dropped")
	}
}

func TestFailuresEndInQuarantine(t *testing.T) {
	const day = 24 * time.Hour
	release := infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, PoolPrefix: prefix}
	until := metav1.NewTime(noon().Add(day))
	early, never := metav1.NewTime(noon().Add(time.Minute)), (*metav1.Time)(nil)
	for name, row := range map[string]struct {
		before []time.Duration
		host   *host.Host
		reason string
		want   *infrav1.Quarantine
	}{
		"second in a week":            {[]time.Duration{day}, failing(8), "x", nil},
		"third in a week":             {[]time.Duration{6 * day, day}, failing(8), "x", &infrav1.Quarantine{Until: &until}},
		"third in two weeks":          {[]time.Duration{8 * day, day}, failing(8), "x", nil},
		"the disk was dirty":          {nil, failing(1), infrav1.ReasonNotWiped, &infrav1.Quarantine{Until: never}},
		"a person's word stays":       {[]time.Duration{day, day}, failing(8, barred(nil)), "x", &infrav1.Quarantine{Until: never}},
		"a shorter one grows":         {[]time.Duration{day, day}, failing(8, barred(&early)), "x", &infrav1.Quarantine{Until: &until}},
		"dirty ends only by a person": {nil, failing(8, barred(&early)), infrav1.ReasonNotWiped, &infrav1.Quarantine{Until: never}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ago := range row.before {
				row.host.Spec.Failures.Recent = append(row.host.Spec.Failures.Recent, infrav1.Failure{Time: metav1.NewTime(noon().Add(-ago))})
			}
			host.ReleaseUnhealthy(row.host, release, row.reason, noon())
			got := row.host.Spec.Quarantine
			if (got == nil) != (row.want == nil) || (got != nil && (got.Reason == "" || !got.Until.Equal(row.want.Until))) {
				t.Errorf("quarantine %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestTheOldestFailuresAreForgotten(t *testing.T) {
	h := failing(8)
	for i := range 20 {
		host.ReleaseUnhealthy(h, infrav1.Release{Token: "t-1"}, fmt.Sprint(i), noon().Add(time.Duration(i)*time.Hour))
	}
	f := h.Spec.Failures
	if len(f.Recent) != 16 || f.Recent[0].Reason != "4" || f.Recent[15].Reason != "19" || f.Count != 20 {
		t.Errorf("failures %+v", f)
	}
}

func TestDetachIsRemembered(t *testing.T) {
	h := failing(1)
	host.Detach(h, noon())
	if h.Spec.ClaimRef != nil || h.Spec.Record.DetachedAt == nil || host.Clean(h) {
		t.Errorf("spec %+v; want the claim gone, and the disk not clean", h.Spec)
	}
	host.RecordMove(h, noon())
	host.Claim(h, infrav1.ClaimReference{Namespace: "fleet", Name: "m-2", Token: "t-2"}, noon())
	if h.Spec.Record.DetachedAt != nil || h.Spec.Record.HandedOverAt != nil {
		t.Errorf("record %+v; want a new claim to end both", h.Spec.Record)
	}
}
