package doctor

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/session"
)

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}

// expectation is who may do at most what with a file.
type expectation struct {
	path string
	// mode is the widest that is right.
	mode fs.FileMode
	// owner; empty: the console user.
	owner string
}

// expectations are the files whose owner or mode decides who becomes root, who
// reads a secret, or whether macOS takes the file at all.
func expectations(user string) []expectation {
	home := path.Join("/Users", user)
	all := []expectation{
		{session.PasswordFile, 0o600, "root"},
		{"/etc/sudoers", 0o440, "root"},
		{document.ConfigFile, 0o640, "root"},
		{document.JoinPermitFile, 0o640, "root"},
		{document.BootstrapKubeconfig, 0o600, user},
		{document.UpgradeKeyFile, 0o644, "root"},
		{document.AgentCertFile, 0o600, user},
		{document.AgentPlist, 0o644, "root"},
		{document.HostdPlist, 0o644, "root"},
		{launchd.AgentErrorLog, 0o640, user},
		{document.AuthorizedKeysFile, 0o644, "root"},
		{path.Join(home, ".ssh"), 0o700, user},
		{path.Join(home, ".ssh/authorized_keys"), 0o644, user},
		{path.Join(home, ".ssh/scw_authorized_keys"), 0o644, user},
	}
	for _, d := range converge.Dirs(user) {
		all = append(all, expectation{d.Path, d.Attr.Mode, d.Attr.Owner})
	}
	return all
}

func modes(ctx context.Context, x *exam) Finding {
	user := x.user(ctx)
	if user == "" {
		return unknown("nobody is logged in at the console, and the agent is not installed: whose files to look at is not known")
	}
	var wrong []string
	looked := 0
	for _, e := range expectations(user) {
		info, err := x.behind(ctx, e.path)
		if absent(err) {
			continue
		}
		if err != nil {
			return unseen(err)
		}
		looked++
		if says := e.judge(info); says != "" {
			wrong = append(wrong, says)
		}
	}
	if len(wrong) > 0 {
		return problem(strings.Join(wrong, "; "),
			"whoever may write there can become root, or a secret can be read, or macOS ignores the file", "run converge again, or set them by chown and chmod")
	}
	return well("%d files and folders are as they should be", looked)
}

// behind is the file at path, or the one a link there points to.
func (x *exam) behind(ctx context.Context, at string) (macos.Info, error) {
	info, err := x.Mac.Files.Stat(ctx, at)
	if err != nil || info.Target == "" {
		return info, err
	}
	target := info.Target
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(at), target)
	}
	return x.Mac.Files.Stat(ctx, target)
}

// judge says what is wrong with the attributes, or nothing.
func (e expectation) judge(info macos.Info) string {
	mode := info.Mode.Perm()
	if info.Owner == e.owner && mode&^e.mode == 0 {
		return ""
	}
	return fmt.Sprintf("%s is %s, not %s %04o", e.path, info.Attr, e.owner, e.mode)
}

// leftovers lists the launch daemons of others: what an older system left competes
// with ours for guests and for the packet filter.
func leftovers(ctx context.Context, x *exam) Finding {
	names, err := x.Mac.Files.List(path.Dir(document.AgentPlist))
	if err != nil {
		return unseen(err)
	}
	var foreign []string
	for _, name := range names {
		if !strings.HasPrefix(name, "dev.macfleet.") {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 {
		return well("no launch daemons but ours")
	}
	return warning("launch daemons of others: "+strings.Join(foreign, ", "),
		"they may start guests, load packet filter rules, or hold the licence's two slots", "if an older version of this system put them there: converge --take-over; else ask who did")
}
