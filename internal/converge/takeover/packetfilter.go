package takeover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// What older systems left in the packet filter, by the names they are known to
// have used. Anything else in it is somebody else's and stays.
const (
	// PacketFilterAnchor is the anchor they called from /etc/pf.conf.
	PacketFilterAnchor = "tuist.runners"
	// packetFilterFile held its rules.
	packetFilterFile = "/etc/pf.anchors/" + PacketFilterAnchor
	pfConf           = "/etc/pf.conf"
)

// PacketFilterTables are their tables: in the anchor or in the main ruleset, by
// release, and persistent.
func PacketFilterTables() []string { return []string{"vm_sources", "blocked_dst"} }

// PacketFilter is what older systems left in the packet filter.
type PacketFilter struct{ *step.Env }

// Left says what of it is left.
func (p PacketFilter) Left(ctx context.Context) ([]string, error) {
	var all []string
	rules, err := p.Mac.Firewall.Rules(ctx, PacketFilterAnchor)
	if err != nil {
		return nil, fmt.Errorf("reading the anchor %s: %w", PacketFilterAnchor, err)
	}
	if len(rules) > 0 {
		all = append(all, "the anchor "+PacketFilterAnchor+" of an older system has rules")
	}
	left, err := p.tables(ctx)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		all = append(all, "tables of an older system: "+strings.Join(left, ", "))
	}
	_, found, err := p.confLines()
	if found {
		all = append(all, pfConf+" has lines of an older system")
	}
	return all, err
}

// tables are their tables in either scope.
func (p PacketFilter) tables(ctx context.Context) ([]string, error) {
	var left []string
	for _, scope := range []string{PacketFilterAnchor, ""} {
		names, err := p.Mac.Firewall.Tables(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("reading the packet filter's tables: %w", err)
		}
		for _, name := range names {
			// All tables of their anchor are theirs.
			if scope != "" || slices.Contains(PacketFilterTables(), name) {
				left = append(left, strings.TrimPrefix(scope+"/"+name, "/"))
			}
		}
	}
	return left, nil
}

// Clear removes it. What pf does with tables that persist is not
// known for sure, so everything that may help is done, in an order in which
// nothing is referred to any more when it is removed. pf.conf is not loaded again:
// that would throw away what other programs have in the main ruleset, the guests'
// NAT among it.
func (p PacketFilter) Clear(ctx context.Context) error {
	found, err := p.Left(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	if err := p.MakeWay(ctx); err != nil {
		return err
	}
	if err := p.cleanPFConf(ctx); err != nil {
		return fmt.Errorf("clearing the firewall of an older system: %w", err)
	}
	left, err := p.tables(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return step.Fail(document.Reboot, "tables of an older system cannot be removed (%s); a reboot clears the packet filter",
			strings.Join(left, ", "))
	}
	return nil
}

// MakeWay removes what is in the packet filter now, and leaves what brings it back.
func (p PacketFilter) MakeWay(ctx context.Context) error {
	unlock, err := firewall.LockArming(ctx, p.Mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	if err := p.clearAnchor(ctx); err != nil {
		return fmt.Errorf("clearing the firewall of an older system: %w", err)
	}
	return nil
}

func (p PacketFilter) clearAnchor(ctx context.Context) error {
	pf := p.Mac.Firewall
	if err := firewall.LoadAnchor(ctx, p.Mac, PacketFilterAnchor, ""); err != nil {
		return err
	}
	inAnchor, err := pf.Tables(ctx, PacketFilterAnchor)
	if err != nil {
		return err
	}
	tables := append(PacketFilterTables(), inAnchor...)
	slices.Sort(tables)
	for _, name := range slices.Compact(tables) {
		if err := pf.KillTable(ctx, PacketFilterAnchor, name); err != nil {
			return err
		}
	}
	for _, name := range PacketFilterTables() {
		if err := pf.KillTable(ctx, "", name); err != nil {
			return err
		}
	}
	if err := pf.FlushTables(ctx, PacketFilterAnchor); err != nil {
		return err
	}
	return firewall.LoadAnchor(ctx, p.Mac, PacketFilterAnchor, "")
}

// confLines finds their lines in pf.conf, and says what stays without them.
func (p PacketFilter) confLines() (kept []byte, found bool, err error) {
	all, err := step.Read(p.Mac.Files, pfConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", pfConf, err)
	}
	kept = withoutTheirs(all)
	return kept, !bytes.Equal(all, kept), nil
}

// withoutTheirs drops their lines: everything that names their anchor or its file,
// and the comments that marked their block in some releases.
func withoutTheirs(conf []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(conf) {
		text := strings.ToLower(strings.TrimSpace(string(line)))
		marker := strings.HasPrefix(text, "#") && strings.Contains(text, "tuist")
		if !marker && !strings.Contains(text, PacketFilterAnchor) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (p PacketFilter) cleanPFConf(ctx context.Context) error {
	kept, found, err := p.confLines()
	if err != nil || !found {
		return err
	}
	info, err := p.Mac.Files.Stat(ctx, pfConf)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", pfConf, err)
	}
	return step.Write(ctx, p.Mac.Files, step.File{Path: pfConf, Data: kept, Attr: info.Attr})
}
