package host_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func provisioned(m *infrav1.ScalewayAppleSiliconMachine) {
	m.Spec.ProviderID = host.ProviderID(zone, serverID)
}

func provisionedElsewhere(m *infrav1.ScalewayAppleSiliconMachine) {
	m.Spec.ProviderID = host.ProviderID(zone, "99999999-2222-3333-4444-555555555555")
}

func shows(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = serverID }

func born(minutes int) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.CreationTimestamp = metav1.NewTime(noon().Add(time.Duration(minutes) * time.Minute))
	}
}

func meansHost(name string) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.Name = name }
}

// mine is the Secret of the owner's claim.
func mine() host.StagedClaim { return host.StagedClaim{Token: "t-1", Epoch: 3} }

func TestEvidenceOfAClaim(t *testing.T) {
	epoch := func(n int64) func(*host.Host) { return func(h *host.Host) { h.Spec.Record.InstallEpoch = n } }
	for name, row := range map[string]struct {
		machine *infrav1.ScalewayAppleSiliconMachine
		staged  host.StagedClaim
		host    *host.Host
		want    host.Evidence
	}{
		"a name and a hostRef":                   {owner(), host.StagedClaim{}, pooled(named("m-1")), host.EvidenceNone},
		"its own providerID":                     {owner(provisioned), host.StagedClaim{}, pooled(named("m-1")), host.EvidenceProviderID},
		"its own providerID, and no hostRef":     {owner(provisioned, func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil }), host.StagedClaim{}, pooled(), host.EvidenceProviderID},
		"another Mac's providerID":               {owner(provisionedElsewhere, shows), mine(), pooled(named("m-1")), host.EvidenceNone},
		"token and epoch, the Host was rebuilt":  {owner(), mine(), pooled(named("m-1")), host.EvidenceSecret},
		"token and epoch, the same install":      {owner(), mine(), pooled(named("m-1"), epoch(3)), host.EvidenceSecret},
		"token and epoch, wiped since":           {owner(), mine(), pooled(named("m-1"), epoch(4)), host.EvidenceNone},
		"a token without its epoch":              {owner(), host.StagedClaim{Token: "t-1"}, pooled(named("m-1")), host.EvidenceNone},
		"the Secret of another claim":            {owner(), host.StagedClaim{Token: "t-0", Epoch: 3}, pooled(named("m-1")), host.EvidenceNone},
		"a Secret without a token, and no token": {owner(means("")), host.StagedClaim{Epoch: 3}, pooled(named("m-1")), host.EvidenceNone},
		"the Secret, and a hostRef to another": {
			owner(meansHost("fr-par-1-other")), mine(), pooled(named("m-1")), host.EvidenceNone,
		},
		"its status shows the server": {owner(shows), host.StagedClaim{}, pooled(named("m-1")), host.EvidenceStatus},
		"an order, and no server": {
			owner(), host.StagedClaim{}, &host.Host{Spec: infrav1.ScalewayAppleSiliconHostSpec{Order: &infrav1.OrderRequest{}}}, host.EvidenceNone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.EvidenceOf(host.Claimant{Machine: row.machine, Staged: row.staged}, row.host); got != row.want {
				t.Errorf("evidence %d, want %d", got, row.want)
			}
		})
	}
}

func TestMayClaimAgain(t *testing.T) {
	rival := func(changes ...func(*infrav1.ScalewayAppleSiliconMachine)) host.Claimant {
		return host.Claimant{Machine: owner(append([]func(*infrav1.ScalewayAppleSiliconMachine){called("other", "m-1"), uid("u-9")}, changes...)...)}
	}
	withSecret := func(c host.Claimant) host.Claimant { c.Staged = mine(); return c }
	rebuilt := func(changes ...func(*host.Host)) *host.Host { return pooled(append(changes, named("m-1"))...) }
	for name, row := range map[string]struct {
		in       host.ClaimAgainInput
		reason   string
		says     string
		withheld bool
	}{
		"proved by providerID":            {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}}},
		"proved by its Secret":            {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner()})}},
		"proved by its status":            {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(shows)}}},
		"named like a server":             {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner()}}, reason: infrav1.ReasonClaimConflict, says: "nothing shows that this Machine ever had it: neither spec.providerID, nor Secret m-1-bootstrap, nor status.serverID; nothing is claimed, and deleting this object releases nothing: delete it, or, where it did have it, restore that Secret from a backup"},
		"in maintenance":                  {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Host: rebuilt(maintained)}, reason: infrav1.ReasonMaintenance, says: "spec.maintenance", withheld: true},
		"quarantined":                     {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Host: rebuilt(quarantined(0))}, reason: infrav1.ReasonQuarantined, says: "spec.quarantine", withheld: true},
		"in maintenance, nothing proved":  {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner()}, Host: rebuilt(maintained)}, reason: infrav1.ReasonClaimConflict},
		"detached":                        {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Host: rebuilt(func(h *host.Host) { h.Spec.Record.DetachedAt = at(1) })}, reason: infrav1.ReasonDetached},
		"handed over":                     {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Host: rebuilt(func(h *host.Host) { h.Spec.Record.HandedOverAt = at(1) })}, reason: infrav1.ReasonHandedOver},
		"its owner does not exist":        {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, MissingOwner: "Machine m-1"}, reason: infrav1.ReasonClaimConflict, says: "lead to Machine m-1,"},
		"neither owner nor a free hand":   {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, MissingOwner: "Machine m-1", Host: rebuilt(maintained)}, reason: infrav1.ReasonClaimConflict},
		"a Secret for another host":       {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner(provisioned, shows, meansHost("fr-par-1-other"))}), Rivals: []host.Claimant{withSecret(rival(provisioned))}}, reason: infrav1.ReasonClaimConflict},
		"named like the pool":             {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner()}), PoolPrefix: "m-"}, reason: infrav1.ReasonClaimConflict, says: "another name"},
		"the pool was named like it":      {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, PoolPrefix: "m-"}},
		"a rival with a providerID":       {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner()}), Rivals: []host.Claimant{rival(provisioned)}}, reason: infrav1.ReasonClaimConflict, says: "other/m-1"},
		"a rival with a Secret":           {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(shows)}, Rivals: []host.Claimant{withSecret(rival())}}, reason: infrav1.ReasonClaimConflict},
		"a made-up providerID":            {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner(shows)}), Rivals: []host.Claimant{rival(provisioned)}}},
		"a copy with all but the status":  {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner(provisioned, shows)}), Rivals: []host.Claimant{withSecret(rival(provisioned))}}},
		"such a copy":                     {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner(provisioned)}), Rivals: []host.Claimant{rival(provisioned, shows)}}, reason: infrav1.ReasonClaimConflict},
		"more than a rival, no status":    {in: host.ClaimAgainInput{Claimant: withSecret(host.Claimant{Machine: owner(provisioned)}), Rivals: []host.Claimant{rival(provisioned)}}, reason: infrav1.ReasonClaimConflict},
		"a rival with nothing":            {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(shows, born(9))}, Rivals: []host.Claimant{rival(born(0))}}},
		"as good as an older rival":       {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned, born(9))}, Rivals: []host.Claimant{rival(provisioned, born(0))}}, reason: infrav1.ReasonClaimConflict},
		"as good as a younger rival":      {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned, born(0))}, Rivals: []host.Claimant{rival(provisioned, born(9))}}, reason: infrav1.ReasonClaimConflict},
		"the Machine itself is no rival":  {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Rivals: []host.Claimant{{Machine: owner(provisioned)}}}},
		"a quarantine that is over holds": {in: host.ClaimAgainInput{Claimant: host.Claimant{Machine: owner(provisioned)}, Host: rebuilt(func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Until: &metav1.Time{Time: noon()}} })}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.in.Host == nil {
				row.in.Host = rebuilt()
			}
			row.in.Now = noon().Add(time.Hour)
			got := host.MayClaimAgain(row.in)
			if got.Reason != row.reason || !strings.Contains(got.Message, row.says) || got.Withheld() != row.withheld {
				t.Errorf("%+v, withheld %t; want %q %q", got, got.Withheld(), row.reason, row.says)
			}
			if (got.Reason == "") != (got.Message == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}
