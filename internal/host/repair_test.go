package host_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func TestRepair(t *testing.T) {
	machine := func(token, providerID string) *infrav1.ScalewayAppleSiliconMachine {
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}
		m.Spec.ProviderID = providerID
		m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, serverID), ClaimToken: token}
		return m
	}
	ordering := func(token string) *infrav1.ScalewayAppleSiliconMachine {
		m := machine(token, "")
		m.Spec.HostRef.Name = host.OrderName("m-1")
		return m
	}
	order := func(changes ...func(*host.Host)) *host.Host {
		h := &host.Host{Spec: infrav1.ScalewayAppleSiliconHostSpec{Zone: zone, Order: &infrav1.OrderRequest{Name: "m-1", Type: "M2-L", Zone: zone}}}
		for _, change := range changes {
			change(h)
		}
		return h
	}
	of := func(m *infrav1.ScalewayAppleSiliconMachine, uid types.UID) *infrav1.ScalewayAppleSiliconMachine {
		m.UID = uid
		return m
	}
	elsewhere := func(m *infrav1.ScalewayAppleSiliconMachine) *infrav1.ScalewayAppleSiliconMachine {
		m.Namespace = "other"
		return m
	}
	another := func(name, namespace, providerID string) *infrav1.ScalewayAppleSiliconMachine {
		m := machine("t-1", providerID)
		m.Name, m.Namespace = name, namespace
		return m
	}
	policy := func(p infrav1.ReleasePolicy) func(*host.Host) {
		return func(h *host.Host) { h.Spec.Release.Policy = p }
	}
	detached := func(h *host.Host) { h.Spec.Record.DetachedAt = at(1) }
	foreign := condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther)
	for name, row := range map[string]struct {
		machine *infrav1.ScalewayAppleSiliconMachine
		host    *host.Host
		want    host.Verdict
	}{
		"intent, no claim, free":                {machine("t-1", ""), pooled(), host.Acquire},
		"intent, no claim, no longer free":      {machine("t-1", ""), pooled(status("rebooting")), host.ChooseAgain},
		"intent of a claim that has ended":      {machine("t-1", ""), pooled(func(h *host.Host) { h.Spec.Record.Bootstrap.ClaimToken = "t-1" }), host.ChooseAgain},
		"intent, no claim, dirty":               {machine("t-1", ""), pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(1) }), host.ChooseAgain},
		"claimed by us":                         {machine("t-1", ""), pooled(claimed), host.Held},
		"two Machines, one host":                {machine("t-2", ""), pooled(claimed), host.Lost},
		"token mismatch after provisioning":     {machine("t-2", "scw"), pooled(claimed), host.Lost},
		"named by somebody else":                {machine("t-1", ""), pooled(claimed, foreign), host.Lost},
		"never while release is set":            {machine("t-1", ""), pooled(released, foreign), host.Releasing},
		"released by another":                   {machine("t-2", ""), pooled(released), host.Lost},
		"Hosts were deleted":                    {machine("t-1", ""), pooled(named("m-1")), host.ClaimAgain},
		"Hosts were deleted, provisioned":       {machine("t-1", "scw"), pooled(named("m-1"), status("rebooting")), host.ClaimAgain},
		"Hosts were deleted, not listed yet":    {machine("t-1", ""), pooled(named("")), host.Wait},
		"Hosts were deleted, not rebuilt yet":   {machine("t-1", ""), nil, host.Wait},
		"provisioned, and freed":                {machine("t-1", "scw"), pooled(), host.Lost},
		"provisioned, and being wiped":          {machine("t-1", "scw"), pooled(status("reinstalling")), host.Lost},
		"provisioned, and somebody's":           {machine("t-1", "scw"), pooled(named("other")), host.Lost},
		"provisioned, not listed yet":           {machine("t-1", "scw"), pooled(named("")), host.Wait},
		"rebuilt host under somebody's name":    {machine("t-1", ""), pooled(named("other")), host.ChooseAgain},
		"intent on a host that is being wiped":  {machine("t-1", ""), pooled(status("reinstalling")), host.ChooseAgain},
		"detached, its server bears our name":   {machine("t-1", ""), pooled(named("m-1"), detached), host.ChooseAgain},
		"detached, provisioned":                 {machine("t-1", "scw"), pooled(named("m-1"), detached), host.Lost},
		"copied hostRef":                        {another("m-2", "fleet", ""), pooled(claimed), host.Copied},
		"copied hostRef, provisioned":           {another("m-2", "fleet", "scw"), pooled(claimed), host.Copied},
		"copied hostRef, the host is released":  {another("m-2", "fleet", ""), pooled(released), host.Copied},
		"copied into another namespace":         {another("m-1", "other", ""), pooled(claimed), host.Copied},
		"created again":                         {of(machine("t-1", "scw"), "u-2"), pooled(claimed, by("u-1")), host.Recreated},
		"created again, not provisioned":        {of(machine("t-1", ""), "u-2"), pooled(claimed, by("u-1")), host.Recreated},
		"created again, named by another":       {of(machine("t-1", ""), "u-2"), pooled(claimed, foreign, by("u-1")), host.Recreated},
		"created again, reinstalled for it":     {of(machine("t-1", ""), "u-2"), pooled(released, by("u-1"), policy(infrav1.Reinstall)), host.Recreated},
		"created again while it is wiped":       {of(machine("t-1", ""), "u-2"), pooled(wiping, by("u-1")), host.Releasing},
		"created again, with an older token":    {of(machine("t-0", ""), "u-2"), pooled(claimed, by("u-1")), host.Lost},
		"claimed before UIDs were known":        {of(machine("t-1", ""), "u-2"), pooled(claimed), host.Held},
		"order of a Machine created again":      {of(ordering("t-1"), "u-2"), order(claimed, by("u-1")), host.Recreated},
		"order of a namesake, hostRef copied":   {elsewhere(ordering("t-1")), order(claimed), host.Copied},
		"order not placed":                      {ordering("t-1"), nil, host.PlaceOrder},
		"order placed":                          {ordering("t-1"), order(claimed), host.Ordering},
		"order of another Machine":              {ordering("t-2"), order(claimed), host.Lost},
		"order without a claim":                 {ordering("t-1"), order(), host.Lost},
		"order released":                        {ordering("t-1"), order(released), host.Releasing},
		"intent of a Machine of another prefix": {machine("t-1", ""), pooled(named("spare-1")), host.ChooseAgain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.Repair(row.machine, row.host, prefix); got != row.want {
				t.Errorf("verdict %s, want %s", got, row.want)
			}
		})
	}
}

func TestClaimRequiresAWipeFromNowOn(t *testing.T) {
	ref := infrav1.ClaimReference{Namespace: "fleet", Name: "m-2", Token: "t-2"}
	for name, row := range map[string]struct {
		before *host.Host
		now    time.Time
		epoch  int64
		since  time.Time
	}{
		"fresh order": {pooled(), noon(), 1, noon()},
		"wiped by us": {pooled(func(h *host.Host) { h.Spec.Record.InstallEpoch = 4; h.Spec.Record.Wipe.ObservedAt = at(-1) }), noon(), 4, noon()},
		"wiped by us, our clock is behind": {
			pooled(func(h *host.Host) { h.Spec.Record.InstallEpoch = 4; h.Spec.Record.Wipe.ObservedAt = at(3) }), noon(), 4,
			noon().Add(3*time.Minute + time.Microsecond),
		},
		"owned since its wipe": {
			pooled(func(h *host.Host) {
				h.Spec.Record.InstallEpoch = 4
				h.Spec.Record.Wipe.ObservedAt, h.Spec.Record.Wipe.RequiredSince = at(-2), at(-1)
			}), noon(), 5, noon(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			host.Claim(row.before, ref, row.now)
			record := row.before.Spec.Record
			if diff := cmp.Diff(&ref, row.before.Spec.ClaimRef); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
			if record.InstallEpoch != row.epoch || !record.Wipe.RequiredSince.Time.Equal(row.since) || record.Bootstrap.ClaimToken != "t-2" {
				t.Errorf("record %+v", record)
			}
			row.before.Spec.ClaimRef = nil
			if host.Clean(row.before) {
				t.Error("clean without a wipe after the claim")
			}
		})
	}
}

// A server that was ordered, and came to the pool since, ends as the pool's do.
func TestAClaimOfAServerOrderedForAnotherIsNoOrder(t *testing.T) {
	h := &host.Host{}
	h.Spec.Record.Ordered = true
	host.Claim(h, infrav1.ClaimReference{Namespace: "fleet", Name: "m", Token: "t"}, time.Now())
	if h.Spec.Record.Ordered {
		t.Error("the next owner's Mac would be deleted with its Machine")
	}
}

func TestNextShow(t *testing.T) {
	const settle = 5 * time.Second
	shown := func(h *host.Host) { claimed(h); h.Status.ShownSince = at(0) }
	never := time.Time{}
	for name, row := range map[string]struct {
		host       *host.Host
		name       string
		now, known time.Time
		want       host.ShowStep
	}{
		"in the pool":               {pooled(claimed), prefix + "1", noon(), never, host.ShowRename},
		"in the pool by our name":   {pooled(claimed), prefix + serverID, noon(), never, host.ShowRename},
		"in another cluster's pool": {pooled(claimed), "theirs-" + serverID, noon(), never, host.ShowLost},
		"shown first":               {pooled(claimed), "m-1", noon(), never, host.ShowRecord},
		"settling":                  {pooled(shown), "m-1", noon().Add(settle - 1), never, host.ShowSettle},
		"settled":                   {pooled(shown), "m-1", noon().Add(settle), never, host.ShowStage},
		"shown by a clock behind":   {pooled(shown), "m-1", noon().Add(time.Hour), noon().Add(time.Hour), host.ShowSettle},
		"shown by a clock ahead":    {pooled(shown), "m-1", noon().Add(-time.Hour), noon().Add(-time.Hour - settle), host.ShowStage},
		"another's from the start":  {pooled(claimed), "m-2", noon(), never, host.ShowLost},
		"another's while settling":  {pooled(shown), "m-2", noon(), never, host.ShowLost},
		"back to the pool, by hand": {pooled(shown), prefix + "1", noon().Add(time.Hour), never, host.ShowLost},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.NextShow(row.host, host.ShowInput{Name: row.name, Pools: []string{"", prefix}, Began: row.now, Settle: settle, FirstSeen: host.FirstSeen{Shown: row.known}}); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
		})
	}
}

// Its guests would go with it. What was given to its owner before stays as it is.
func TestAServerThatIsToBeDeletedIsShownToNobody(t *testing.T) {
	shown := func(h *host.Host) { claimed(h); h.Status.ShownSince = at(0) }
	for name, row := range map[string]struct {
		host  *host.Host
		name  string
		given bool
		want  host.ShowStep
	}{
		"in the pool":            {pooled(claimed), prefix + "1", false, host.ShowGoing},
		"by its owner's name":    {pooled(claimed), "m-1", false, host.ShowGoing},
		"while settling":         {pooled(shown), "m-1", false, host.ShowGoing},
		"another's":              {pooled(claimed), "m-2", false, host.ShowLost},
		"given to its owner":     {pooled(shown), "m-1", true, host.ShowStage},
		"given, and not in sync": {pooled(claimed), "m-1", true, host.ShowRecord},
	} {
		t.Run(name, func(t *testing.T) {
			in := host.ShowInput{Name: row.name, Pools: []string{prefix}, Began: noon().Add(time.Hour), DeletionScheduled: true, Given: row.given}
			if got := host.NextShow(row.host, in); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
		})
	}
}

func TestCheckPrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"tuist-pool-": true, "ab-": true, "": false, "-": false, "a-": false, "tuist": false, "Tuist-": false,
		"-a-": false, "a b-": false, "tuist-": false, "tuist-tuist-": false,
		"a123456789-123456789-123456789-12345678-": true, "a123456789-123456789-123456789-123456789-": false,
	} {
		err := host.CheckPrefix(prefix, "tuist-tuist-fleet-0")
		var wrong *host.PrefixError
		if (err == nil) != ok || (err != nil && !errors.As(err, &wrong)) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
