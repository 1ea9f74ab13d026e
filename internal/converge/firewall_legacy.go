package converge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// What older systems left in the packet filter, by the names they are known to
// have used. Anything else in it is somebody else's and stays.
const (
	// LegacyFirewallAnchor is the anchor they called from /etc/pf.conf.
	LegacyFirewallAnchor = "tuist.runners"
	// LegacyFirewallFile held its rules.
	LegacyFirewallFile = "/etc/pf.anchors/" + LegacyFirewallAnchor
	pfConf             = "/etc/pf.conf"
)

// LegacyFirewallTables are their tables: in the anchor or in the main ruleset, by
// release, and persistent.
func LegacyFirewallTables() []string { return []string{"vm_sources", "blocked_dst"} }

// legacyFirewall says what of it is left.
func (t *target) legacyFirewall(ctx context.Context) ([]string, error) {
	var all []string
	rules, err := t.Mac.Firewall.Rules(ctx, LegacyFirewallAnchor)
	if err != nil {
		return nil, fmt.Errorf("reading the anchor %s: %w", LegacyFirewallAnchor, err)
	}
	if len(rules) > 0 {
		all = append(all, "the anchor "+LegacyFirewallAnchor+" of an older system has rules")
	}
	left, err := t.legacyTables(ctx)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		all = append(all, "tables of an older system: "+strings.Join(left, ", "))
	}
	_, found, err := t.legacyLines()
	if found {
		all = append(all, pfConf+" has lines of an older system")
	}
	return all, err
}

// legacyTables are their tables in either scope.
func (t *target) legacyTables(ctx context.Context) ([]string, error) {
	var left []string
	for _, scope := range []string{LegacyFirewallAnchor, ""} {
		names, err := t.Mac.Firewall.Tables(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("reading the packet filter's tables: %w", err)
		}
		for _, name := range names {
			// All tables of their anchor are theirs.
			if scope != "" || slices.Contains(LegacyFirewallTables(), name) {
				left = append(left, strings.TrimPrefix(scope+"/"+name, "/"))
			}
		}
	}
	return left, nil
}

// clearLegacyFirewall removes it. What pf does with tables that persist is not
// known for sure, so everything that may help is done, in an order in which
// nothing is referred to any more when it is removed. pf.conf is not loaded again:
// that would throw away what other programs have in the main ruleset, the guests'
// NAT among it.
func (t *target) clearLegacyFirewall(ctx context.Context) error {
	found, err := t.legacyFirewall(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	unlock, err := lockFirewall(ctx, t.Mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	if err := t.clearLegacyAnchor(ctx); err != nil {
		return fmt.Errorf("clearing the firewall of an older system: %w", err)
	}
	if err := t.cleanPFConf(ctx); err != nil {
		return fmt.Errorf("clearing the firewall of an older system: %w", err)
	}
	left, err := t.legacyTables(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fail(document.Reboot, "tables of an older system cannot be removed (%s); a reboot clears the packet filter",
			strings.Join(left, ", "))
	}
	return nil
}

func (t *target) clearLegacyAnchor(ctx context.Context) error {
	pf := t.Mac.Firewall
	if err := loadAnchor(ctx, t.Mac, LegacyFirewallAnchor, ""); err != nil {
		return err
	}
	inAnchor, err := pf.Tables(ctx, LegacyFirewallAnchor)
	if err != nil {
		return err
	}
	tables := append(LegacyFirewallTables(), inAnchor...)
	slices.Sort(tables)
	for _, name := range slices.Compact(tables) {
		if err := pf.KillTable(ctx, LegacyFirewallAnchor, name); err != nil {
			return err
		}
	}
	for _, name := range LegacyFirewallTables() {
		if err := pf.KillTable(ctx, "", name); err != nil {
			return err
		}
	}
	if err := pf.FlushTables(ctx, LegacyFirewallAnchor); err != nil {
		return err
	}
	return loadAnchor(ctx, t.Mac, LegacyFirewallAnchor, "")
}

// legacyLines finds their lines in pf.conf, and says what stays without them.
func (t *target) legacyLines() (kept []byte, found bool, err error) {
	all, err := read(t.Mac.Files, pfConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", pfConf, err)
	}
	kept = withoutLegacy(all)
	return kept, !bytes.Equal(all, kept), nil
}

// withoutLegacy drops their lines: everything that names their anchor or its file,
// and the comments that marked their block in some releases.
func withoutLegacy(conf []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(conf) {
		text := strings.ToLower(strings.TrimSpace(string(line)))
		marker := strings.HasPrefix(text, "#") && strings.Contains(text, "tuist")
		if !marker && !strings.Contains(text, LegacyFirewallAnchor) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (t *target) cleanPFConf(ctx context.Context) error {
	kept, found, err := t.legacyLines()
	if err != nil || !found {
		return err
	}
	info, err := t.Mac.Files.Stat(ctx, pfConf)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", pfConf, err)
	}
	return write(ctx, t.Mac.Files, file{pfConf, kept, info.Attr})
}
